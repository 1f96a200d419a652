"""The phrases of the sample replies: what fills the slots of `frames`, in the languages of MRS.

A block is a list of meanings, `# name`; the same place in every language is the same meaning.
Phrases fit into a sentence as they are, so that nothing needs inflection: days and hours are
adverbials, places and cities say where, objects are accusatives. Japanese adds its particles in the
frames. `chat` and `hurry` are sentences that may stand beside any other.
"""

PHRASES = """
# day
en on Monday | on Tuesday | on Wednesday | on Thursday | on Friday | on Saturday | on Sunday
es el lunes | el martes | el miércoles | el jueves | el viernes | el sábado | el domingo
de am Montag | am Dienstag | am Mittwoch | am Donnerstag | am Freitag | am Samstag | am Sonntag
pt na segunda | na terça | na quarta | na quinta | na sexta | no sábado | no domingo
fr lundi | mardi | mercredi | jeudi | vendredi | samedi | dimanche
ja 月曜日 | 火曜日 | 水曜日 | 木曜日 | 金曜日 | 土曜日 | 日曜日
it lunedì | martedì | mercoledì | giovedì | venerdì | sabato | domenica
sv på måndag | på tisdag | på onsdag | på torsdag | på fredag | på lördag | på söndag
nl maandag | dinsdag | woensdag | donderdag | vrijdag | zaterdag | zondag
ru в понедельник | во вторник | в среду | в четверг | в пятницу | в субботу | в воскресенье

# hour
en at two | at three | at four | at five | at six | at seven | at eight | at nine
es a las dos | a las tres | a las cuatro | a las cinco | a las seis | a las siete | a las ocho |
   a las nueve
de um zwei | um drei | um vier | um fünf | um sechs | um sieben | um acht | um neun
pt às duas | às três | às quatro | às cinco | às seis | às sete | às oito | às nove
fr à deux heures | à trois heures | à quatre heures | à cinq heures | à six heures |
   à sept heures | à huit heures | à neuf heures
ja 二時 | 三時 | 四時 | 五時 | 六時 | 七時 | 八時 | 九時
it alle due | alle tre | alle quattro | alle cinque | alle sei | alle sette | alle otto |
   alle nove
sv klockan två | klockan tre | klockan fyra | klockan fem | klockan sex | klockan sju |
   klockan åtta | klockan nio
nl om twee uur | om drie uur | om vier uur | om vijf uur | om zes uur | om zeven uur |
   om acht uur | om negen uur
ru в два часа | в три часа | в четыре часа | в пять часов | в шесть часов | в семь часов |
   в восемь часов | в девять часов

# place
en at the station | at the market | in the park | at the airport | in the library | at the hotel |
   at the museum | on the beach | in the office | at the café
es en la estación | en el mercado | en el parque | en el aeropuerto | en la biblioteca |
   en el hotel | en el museo | en la playa | en la oficina | en el café
de am Bahnhof | auf dem Markt | im Park | am Flughafen | in der Bibliothek | im Hotel | im Museum |
   am Strand | im Büro | im Café
pt na estação | no mercado | no parque | no aeroporto | na biblioteca | no hotel | no museu |
   na praia | no escritório | no café
fr à la gare | au marché | au parc | à l'aéroport | à la bibliothèque | à l'hôtel | au musée |
   à la plage | au bureau | au café
ja 駅 | 市場 | 公園 | 空港 | 図書館 | ホテル | 博物館 | 浜辺 | 会社 | カフェ
it alla stazione | al mercato | al parco | all'aeroporto | in biblioteca | in albergo | al museo |
   in spiaggia | in ufficio | al bar
sv på stationen | på marknaden | i parken | på flygplatsen | på biblioteket | på hotellet |
   på museet | på stranden | på kontoret | på kaféet
nl op het station | op de markt | in het park | op het vliegveld | in de bibliotheek |
   in het hotel | in het museum | op het strand | op kantoor | in het café
ru на вокзале | на рынке | в парке | в аэропорту | в библиотеке | в гостинице | в музее |
   на пляже | в офисе | в кафе

# city
en in Rome | in Paris | in Berlin | in Madrid | in Lisbon | in Tokyo | in Moscow | in Vienna
es en Roma | en París | en Berlín | en Madrid | en Lisboa | en Tokio | en Moscú | en Viena
de in Rom | in Paris | in Berlin | in Madrid | in Lissabon | in Tokio | in Moskau | in Wien
pt em Roma | em Paris | em Berlim | em Madri | em Lisboa | em Tóquio | em Moscou | em Viena
fr à Rome | à Paris | à Berlin | à Madrid | à Lisbonne | à Tokyo | à Moscou | à Vienne
ja ローマ | パリ | ベルリン | マドリード | リスボン | 東京 | モスクワ | ウィーン
it a Roma | a Parigi | a Berlino | a Madrid | a Lisbona | a Tokyo | a Mosca | a Vienna
sv i Rom | i Paris | i Berlin | i Madrid | i Lissabon | i Tokyo | i Moskva | i Wien
nl in Rome | in Parijs | in Berlijn | in Madrid | in Lissabon | in Tokio | in Moskou | in Wenen
ru в Риме | в Париже | в Берлине | в Мадриде | в Лиссабоне | в Токио | в Москве | в Вене

# name
en Nora | Leo | Maria | Paul | Nina | Viktor | Clara | Martin | Sara | Daniel
es Nora | Leo | Maria | Paul | Nina | Viktor | Clara | Martin | Sara | Daniel
de Nora | Leo | Maria | Paul | Nina | Viktor | Clara | Martin | Sara | Daniel
pt Nora | Leo | Maria | Paul | Nina | Viktor | Clara | Martin | Sara | Daniel
fr Nora | Leo | Maria | Paul | Nina | Viktor | Clara | Martin | Sara | Daniel
ja ノラ | レオ | マリア | ポール | ニーナ | ビクトル | クララ | マーティン | サラ | ダニエル
it Nora | Leo | Maria | Paul | Nina | Viktor | Clara | Martin | Sara | Daniel
sv Nora | Leo | Maria | Paul | Nina | Viktor | Clara | Martin | Sara | Daniel
nl Nora | Leo | Maria | Paul | Nina | Viktor | Clara | Martin | Sara | Daniel
ru Нора | Лео | Мария | Пауль | Нина | Виктор | Клара | Мартин | Сара | Даниэль

# price
en 10 euros | 12 euros | 15 euros | 20 euros | 30 euros | 40 euros | 60 euros | 80 euros
es 10 euros | 12 euros | 15 euros | 20 euros | 30 euros | 40 euros | 60 euros | 80 euros
de 10 Euro | 12 Euro | 15 Euro | 20 Euro | 30 Euro | 40 Euro | 60 Euro | 80 Euro
pt 10 euros | 12 euros | 15 euros | 20 euros | 30 euros | 40 euros | 60 euros | 80 euros
fr 10 euros | 12 euros | 15 euros | 20 euros | 30 euros | 40 euros | 60 euros | 80 euros
ja 10ユーロ | 12ユーロ | 15ユーロ | 20ユーロ | 30ユーロ | 40ユーロ | 60ユーロ | 80ユーロ
it 10 euro | 12 euro | 15 euro | 20 euro | 30 euro | 40 euro | 60 euro | 80 euro
sv 10 euro | 12 euro | 15 euro | 20 euro | 30 euro | 40 euro | 60 euro | 80 euro
nl 10 euro | 12 euro | 15 euro | 20 euro | 30 euro | 40 euro | 60 euro | 80 euro
ru 10 евро | 12 евро | 15 евро | 20 евро | 30 евро | 40 евро | 60 евро | 80 евро

# food
en cheese | rice | soup | chocolate | fish | bread | honey | salad | ice cream | meat | yoghurt |
   milk
es el queso | el arroz | la sopa | el chocolate | el pescado | el pan | la miel | la ensalada |
   el helado | la carne | el yogur | la leche
de Käse | Reis | Suppe | Schokolade | Fisch | Brot | Honig | Salat | Eis | Fleisch | Joghurt |
   Milch
pt queijo | arroz | sopa | chocolate | peixe | pão | mel | salada | sorvete | carne | iogurte |
   leite
fr le fromage | le riz | la soupe | le chocolat | le poisson | le pain | le miel | la salade |
   la glace | la viande | le yaourt | le lait
ja チーズ | お米 | スープ | チョコレート | 魚 | パン | はちみつ | サラダ | アイス | お肉 |
   ヨーグルト | 牛乳
it il formaggio | il riso | la zuppa | il cioccolato | il pesce | il pane | il miele | l'insalata |
   il gelato | la carne | lo yogurt | il latte
sv ost | ris | soppa | choklad | fisk | bröd | honung | sallad | glass | kött | yoghurt | mjölk
nl kaas | rijst | soep | chocolade | vis | brood | honing | salade | ijs | vlees | yoghurt | melk
ru сыр | рис | суп | шоколад | рыбу | хлеб | мёд | салат | мороженое | мясо | йогурт | молоко

# object
en my key | my bag | my umbrella | my phone | my book | my passport | my wallet | my jacket |
   my hat | my ticket
es mi llave | mi bolso | mi paraguas | mi teléfono | mi libro | mi pasaporte | mi cartera |
   mi chaqueta | mi sombrero | mi billete
de meinen Schlüssel | meine Tasche | meinen Schirm | mein Handy | mein Buch | meinen Pass |
   meinen Geldbeutel | meine Jacke | meinen Hut | meine Fahrkarte
pt minha chave | minha bolsa | meu guarda-chuva | meu telefone | meu livro | meu passaporte |
   minha carteira | minha jaqueta | meu chapéu | minha passagem
fr ma clé | mon sac | mon parapluie | mon téléphone | mon livre | mon passeport |
   mon portefeuille | ma veste | mon chapeau | mon billet
ja 鍵 | かばん | 傘 | 携帯 | 本 | パスポート | 財布 | 上着 | 帽子 | 切符
it la mia chiave | la mia borsa | il mio ombrello | il mio telefono | il mio libro |
   il mio passaporto | il mio portafoglio | la mia giacca | il mio cappello | il mio biglietto
sv min nyckel | min väska | mitt paraply | min telefon | min bok | mitt pass | min plånbok |
   min jacka | min hatt | min biljett
nl mijn sleutel | mijn tas | mijn paraplu | mijn telefoon | mijn boek | mijn paspoort |
   mijn portemonnee | mijn jas | mijn hoed | mijn kaartje
ru свой ключ | свою сумку | свой зонт | свой телефон | свою книгу | свой паспорт | свой кошелёк |
   свою куртку | свою шляпу | свой билет

# act
en play chess | play tennis | play football | go swimming | cook something | go shopping |
   go for a walk | dance | go fishing | go skiing
es jugar al ajedrez | jugar al tenis | jugar al fútbol | nadar | cocinar | ir de compras |
   dar un paseo | bailar | pescar | esquiar
de Schach spielen | Tennis spielen | Fußball spielen | schwimmen gehen | etwas kochen |
   einkaufen gehen | spazieren gehen | tanzen | angeln gehen | Ski fahren
pt jogar xadrez | jogar tênis | jogar futebol | nadar | cozinhar | fazer compras | passear |
   dançar | pescar | esquiar
fr jouer aux échecs | jouer au tennis | jouer au football | nager | cuisiner | faire les magasins |
   faire une promenade | danser | pêcher | faire du ski
ja チェス | テニス | サッカー | 水泳 | 料理 | 買い物 | 散歩 | ダンス | 釣り | スキー
it giocare a scacchi | giocare a tennis | giocare a calcio | nuotare | cucinare | fare acquisti |
   fare una passeggiata | ballare | pescare | sciare
sv spela schack | spela tennis | spela fotboll | simma | laga mat | handla | promenera | dansa |
   fiska | åka skidor
nl schaken | tennissen | voetballen | zwemmen | koken | winkelen | wandelen | dansen | vissen |
   skiën
ru поиграть в шахматы | поиграть в теннис | поиграть в футбол | поплавать |
   что-нибудь приготовить | пройтись по магазинам | погулять | потанцевать | порыбачить |
   покататься на лыжах

# success
en We passed the exam. | We won the match. | We got tickets. | We found a flat. |
   We were able to repair the car. | Everything worked out.
es Hemos aprobado el examen. | Hemos ganado el partido. | Hemos conseguido entradas. |
   Hemos encontrado un piso. | Hemos podido arreglar el coche. | Todo ha salido bien.
de Wir haben die Prüfung bestanden. | Wir haben das Spiel gewonnen. | Wir haben Karten bekommen. |
   Wir haben eine Wohnung gefunden. | Wir konnten das Auto reparieren. | Es hat alles geklappt.
pt Nós passamos na prova. | Nós ganhamos o jogo. | Nós conseguimos ingressos. |
   Nós encontramos um apartamento. | Nós conseguimos consertar o carro. | Deu tudo certo.
fr Nous avons réussi l'examen. | Nous avons gagné le match. | Nous avons eu des billets. |
   Nous avons trouvé un appartement. | Nous avons pu réparer la voiture. | Tout a marché.
ja 私たちは試験に受かりました。 | 私たちは試合に勝ちました。 | チケットが取れました。 |
   部屋が見つかりました。 | 車を直せました。 | 全部うまくいきました。
it Abbiamo superato l'esame. | Abbiamo vinto la partita. | Abbiamo trovato i biglietti. |
   Abbiamo trovato un appartamento. | Siamo riusciti a riparare la macchina. |
   È andato tutto bene.
sv Vi klarade provet. | Vi vann matchen. | Vi fick biljetter. | Vi hittade en lägenhet. |
   Vi kunde laga bilen. | Allt gick bra.
nl We hebben het examen gehaald. | We hebben de wedstrijd gewonnen. |
   We hebben kaartjes gekregen. | We hebben een woning gevonden. | We konden de auto repareren. |
   Het is allemaal gelukt.
ru Мы сдали экзамен. | Мы выиграли матч. | Мы достали билеты. | Мы нашли квартиру. |
   Мы смогли починить машину. | У нас всё получилось.

# failure
en We didn't pass the exam. | We didn't win the match. | We didn't get any tickets. |
   We didn't find a flat. | We weren't able to repair the car. | Nothing worked out.
es No hemos aprobado el examen. | No hemos ganado el partido. | No hemos conseguido entradas. |
   No hemos encontrado piso. | No hemos podido arreglar el coche. | Nada ha salido bien.
de Wir haben die Prüfung nicht bestanden. | Wir haben das Spiel nicht gewonnen. |
   Wir haben keine Karten bekommen. | Wir haben keine Wohnung gefunden. |
   Wir konnten das Auto nicht reparieren. | Es hat nichts geklappt.
pt Nós não passamos na prova. | Nós não ganhamos o jogo. | Nós não conseguimos ingressos. |
   Nós não encontramos apartamento. | Nós não conseguimos consertar o carro. | Nada deu certo.
fr Nous n'avons pas réussi l'examen. | Nous n'avons pas gagné le match. |
   Nous n'avons pas eu de billets. | Nous n'avons pas trouvé d'appartement. |
   Nous n'avons pas pu réparer la voiture. | Rien n'a marché.
ja 私たちは試験に受かりませんでした。 | 私たちは試合に勝てませんでした。 |
   チケットが取れませんでした。 | 部屋が見つかりませんでした。 | 車を直せませんでした。 |
   何もうまくいきませんでした。
it Non abbiamo superato l'esame. | Non abbiamo vinto la partita. |
   Non abbiamo trovato i biglietti. | Non abbiamo trovato un appartamento. |
   Non siamo riusciti a riparare la macchina. | Non è andato bene niente.
sv Vi klarade inte provet. | Vi vann inte matchen. | Vi fick inga biljetter. |
   Vi hittade ingen lägenhet. | Vi kunde inte laga bilen. | Ingenting gick bra.
nl We hebben het examen niet gehaald. | We hebben de wedstrijd niet gewonnen. |
   We hebben geen kaartjes gekregen. | We hebben geen woning gevonden. |
   We konden de auto niet repareren. | Er is niets gelukt.
ru Мы не сдали экзамен. | Мы не выиграли матч. | Мы не достали билеты. | Мы не нашли квартиру. |
   Мы не смогли починить машину. | У нас ничего не получилось.

# chat
en My brother can't come {day}. | My sister has time {day}. | My brother can help me {day}. |
   My sister is picking me up {place} {hour}. | My brother is taking the bus {hour}. |
   The library closes {hour} today. | My brother still owes me {price}. |
   My new lamp cost {price}. | My sister doesn't like {food}. | {name} likes {food}. |
   My brother wants to {act} {day}. | My sister no longer has a fever. |
   {name} plays the guitar very well. | My brother is looking for something {place}. |
   My sister was {city} last week. | My brother will be {city} next week. |
   It rained all day yesterday. | {name} works {place}. | {name} is calling me {hour}. |
   My sister passed the exam. | The neighbours are loud again today. |
   Our garden is full of apples.
es Mi hermano no puede venir {day}. | Mi hermana tiene tiempo {day}. |
   Mi hermano puede ayudarme {day}. | Mi hermana me recoge {place} {hour}. |
   Mi hermano toma el autobús {hour}. | La biblioteca cierra hoy {hour}. |
   Mi hermano todavía me debe {price}. | Mi lámpara nueva costó {price}. |
   A mi hermana no le gusta {food}. | A {name} le gusta {food}. | Mi hermano quiere {act} {day}. |
   Mi hermana ya no tiene fiebre. | {name} toca muy bien la guitarra. |
   Mi hermano está buscando algo {place}. | Mi hermana estuvo {city} la semana pasada. |
   Mi hermano estará {city} la semana que viene. | Ayer llovió todo el día. |
   {name} trabaja {place}. | {name} me llama {hour}. | Mi hermana ha aprobado el examen. |
   Los vecinos hacen ruido otra vez. | Nuestro jardín está lleno de manzanas.
de Mein Bruder kann {day} nicht kommen. | Meine Schwester hat {day} Zeit. |
   Mein Bruder kann mir {day} helfen. | Meine Schwester holt mich {hour} {place} ab. |
   Mein Bruder nimmt {hour} den Bus. | Die Bibliothek schließt heute {hour}. |
   Mein Bruder schuldet mir noch {price}. | Meine neue Lampe hat {price} gekostet. |
   Meine Schwester mag {food} nicht. | {name} mag {food}. | Mein Bruder will {day} {act}. |
   Meine Schwester hat kein Fieber mehr. | {name} spielt sehr gut Gitarre. |
   Mein Bruder sucht {place} etwas. | Meine Schwester war letzte Woche {city}. |
   Mein Bruder ist nächste Woche {city}. | Gestern hat es den ganzen Tag geregnet. |
   {name} arbeitet {place}. | {name} ruft mich {hour} an. |
   Meine Schwester hat die Prüfung bestanden. | Die Nachbarn sind heute wieder laut. |
   Unser Garten ist voller Äpfel.
pt Meu irmão não pode vir {day}. | Minha irmã tem tempo {day}. | Meu irmão pode me ajudar {day}. |
   Minha irmã vai me buscar {place} {hour}. | Meu irmão pega o ônibus {hour}. |
   A biblioteca fecha hoje {hour}. | Meu irmão ainda me deve {price}. |
   Minha luminária nova custou {price}. | Minha irmã não gosta de {food}. |
   {name} gosta de {food}. | Meu irmão quer {act} {day}. | Minha irmã não está mais com febre. |
   {name} toca violão muito bem. | Meu irmão está procurando algo {place}. |
   Minha irmã esteve {city} na semana passada. | Meu irmão vai estar {city} na semana que vem. |
   Ontem choveu o dia todo. | {name} trabalha {place}. | {name} vai me ligar {hour}. |
   Minha irmã passou na prova. | Os vizinhos estão fazendo barulho de novo. |
   Nosso jardim está cheio de maçãs.
fr Mon frère ne peut pas venir {day}. | Ma sœur a le temps {day}. | Mon frère peut m'aider {day}. |
   Ma sœur vient me chercher {place} {hour}. | Mon frère prend le bus {hour}. |
   La bibliothèque ferme {hour} aujourd'hui. | Mon frère me doit encore {price}. |
   Ma nouvelle lampe a coûté {price}. | Ma sœur n'aime pas {food}. | {name} aime {food}. |
   Mon frère veut {act} {day}. | Ma sœur n'a plus de fièvre. |
   {name} joue très bien de la guitare. | Mon frère cherche quelque chose {place}. |
   Ma sœur était {city} la semaine dernière. | Mon frère sera {city} la semaine prochaine. |
   Hier, il a plu toute la journée. | {name} travaille {place}. | {name} m'appelle {hour}. |
   Ma sœur a réussi l'examen. | Les voisins font encore du bruit. |
   Notre jardin est plein de pommes.
ja 弟は{day}に来られません。 | 妹は{day}に時間があります。 | 弟が{day}に手伝ってくれます。 |
   妹が{hour}に{place}まで迎えに来てくれます。 | 弟は{hour}のバスで行きます。 |
   図書館は今日{hour}に閉まります。 | 弟は私に{price}の借りがあります。 |
   新しいランプは{price}でした。 | 妹は{food}が好きではありません。 | {name}は{food}が好きです。 |
   弟は{day}に{act}をするそうです。 | 妹はもう熱がありません。 | {name}はギターがとても上手です。 |
   弟は{place}で何かを探しています。 | 妹は先週{city}にいました。 | 弟は来週{city}にいます。 |
   昨日は一日中雨でした。 | {name}は{place}で働いています。 | {hour}に{name}から電話があります。 |
   妹は試験に受かりました。 | 今日も隣の人がうるさいです。 | うちの庭はりんごでいっぱいです。
it Mio fratello non può venire {day}. | Mia sorella ha tempo {day}. |
   Mio fratello può aiutarmi {day}. | Mia sorella mi viene a prendere {place} {hour}. |
   Mio fratello prende l'autobus {hour}. | La biblioteca oggi chiude {hour}. |
   Mio fratello mi deve ancora {price}. | La mia lampada nuova è costata {price}. |
   A mia sorella non piace {food}. | {name} adora {food}. | Mio fratello vuole {act} {day}. |
   Mia sorella non ha più la febbre. | {name} suona molto bene la chitarra. |
   Mio fratello sta cercando qualcosa {place}. | Mia sorella era {city} la settimana scorsa. |
   Mio fratello sarà {city} la prossima settimana. | Ieri ha piovuto tutto il giorno. |
   {name} lavora {place}. | {name} mi chiama {hour}. | Mia sorella ha superato l'esame. |
   I vicini fanno di nuovo rumore. | Il nostro giardino è pieno di mele.
sv Min bror kan inte komma {day}. | Min syster har tid {day}. | Min bror kan hjälpa mig {day}. |
   Min syster hämtar mig {place} {hour}. | Min bror tar bussen {hour}. |
   Biblioteket stänger {hour} i dag. | Min bror är fortfarande skyldig mig {price}. |
   Min nya lampa kostade {price}. | Min syster gillar inte {food}. | {name} gillar {food}. |
   Min bror vill {act} {day}. | Min syster har inte feber längre. |
   {name} spelar gitarr mycket bra. | Min bror letar efter något {place}. |
   Min syster var {city} förra veckan. | Min bror är {city} nästa vecka. |
   I går regnade det hela dagen. | {name} arbetar {place}. | {name} ringer mig {hour}. |
   Min syster klarade provet. | Grannarna är högljudda igen. | Vår trädgård är full av äpplen.
nl Mijn broer kan {day} niet komen. | Mijn zus heeft {day} tijd. |
   Mijn broer kan mij {day} helpen. | Mijn zus haalt mij {hour} {place} op. |
   Mijn broer neemt {hour} de bus. | De bibliotheek sluit vandaag {hour}. |
   Mijn broer is mij nog {price} schuldig. | Mijn nieuwe lamp kostte {price}. |
   Mijn zus lust geen {food}. | {name} lust {food}. | Mijn broer wil {day} {act}. |
   Mijn zus heeft geen koorts meer. | {name} speelt heel goed gitaar. |
   Mijn broer zoekt iets {place}. | Mijn zus was vorige week {city}. |
   Mijn broer is volgende week {city}. | Gisteren regende het de hele dag. |
   {name} werkt {place}. | {name} belt mij {hour}. | Mijn zus heeft het examen gehaald. |
   De buren maken weer lawaai. | Onze tuin ligt vol appels.
ru Мой брат не может прийти {day}. | У моей сестры есть время {day}. |
   Мой брат может помочь мне {day}. | Моя сестра заберёт меня {place} {hour}. |
   Мой брат едет на автобусе {hour}. | Библиотека сегодня закрывается {hour}. |
   Мой брат ещё должен мне {price}. | Моя новая лампа стоила {price}. |
   Моя сестра не любит {food}. | {name} любит {food}. | Мой брат хочет {act} {day}. |
   Моя сестра больше не болеет. | {name} очень хорошо играет на гитаре. |
   Мой брат что-то ищет {place}. | Моя сестра была {city} на прошлой неделе. |
   Мой брат будет {city} на следующей неделе. | Вчера весь день шёл дождь. |
   {name} работает {place}. | {name} позвонит мне {hour}. | Моя сестра сдала экзамен. |
   Соседи сегодня опять шумят. | В нашем саду полно яблок.

# hurry
en I'm in a hurry. | Please answer briefly. | I only have a minute. | I have to go soon. |
   My break is nearly over. | I can't write much right now. | Only a short message. |
   My boss is already waiting.
es Tengo prisa. | Contesta en pocas palabras, por favor. | Solo tengo un minuto. |
   Me tengo que ir pronto. | Mi descanso casi ha terminado. | Ahora no puedo escribir mucho. |
   Solo un mensaje corto. | Mi jefe ya está esperando.
de Ich habe es eilig. | Bitte antworte kurz. | Ich habe nur eine Minute. | Ich muss gleich los. |
   Meine Pause ist fast vorbei. | Ich kann gerade nicht viel schreiben. |
   Nur eine kurze Nachricht. | Mein Chef wartet schon.
pt Estou com pressa. | Responda em poucas palavras, por favor. | Só tenho um minuto. |
   Preciso ir logo. | Meu intervalo está quase no fim. | Não posso escrever muito agora. |
   Só uma mensagem curta. | Meu chefe já está esperando.
fr Je n'ai pas beaucoup de temps. | Réponds en deux mots, s'il te plaît. | Je n'ai qu'une minute. |
   Je dois bientôt partir. | Ma pause est presque finie. | Je ne peux pas écrire beaucoup. |
   Juste un petit message. | Mon chef attend déjà.
ja 急いでいます。 | 短く答えてください。 | 一分しかありません。 | もうすぐ出ます。 |
   休憩がもうすぐ終わります。 | 今はあまり書けません。 | 短い連絡です。 |
   上司がもう待っています。
it Ho fretta. | Rispondi in due parole, per favore. | Ho solo un minuto. | Devo andare tra poco. |
   La mia pausa è quasi finita. | Adesso non posso scrivere molto. | Solo un breve messaggio. |
   Il mio capo sta già aspettando.
sv Jag har bråttom. | Svara kort, är du snäll. | Jag har bara en minut. | Jag måste snart gå. |
   Min rast är nästan slut. | Jag kan inte skriva mycket just nu. | Bara ett kort meddelande. |
   Min chef väntar redan.
nl Ik heb haast. | Antwoord kort, alsjeblieft. | Ik heb maar een minuut. | Ik moet zo weg. |
   Mijn pauze is bijna voorbij. | Ik kan nu niet veel schrijven. | Alleen een kort bericht. |
   Mijn baas wacht al.
ru Я спешу. | Ответь коротко, пожалуйста. | У меня только минута. | Мне скоро уходить. |
   Мой перерыв почти закончился. | Я сейчас не могу много писать. | Только короткое сообщение. |
   Начальник уже ждёт.
"""
