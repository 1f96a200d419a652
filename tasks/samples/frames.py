"""The sentences of the sample replies: for each thing to say, its messages and its replies.

A block is a frame, `# name`, with a line for each language: wordings of the message, then behind
`>` the short and the long reply. `# name = other` has the replies of another block. What fills a
slot is in `phrases`; {day} and {day2} are two different days.
"""

FRAMES = """
# day
en I can't come {day2}, but {day} I can. | {day} I have time, but not {day2}.
 > Then {day}. | All right, see you {day}.
es No puedo {day2}, pero {day} sí. | {day} tengo tiempo, pero {day2} no.
 > Entonces {day}. | De acuerdo, nos vemos {day}.
de {day2} kann ich nicht, aber {day} schon. | {day} habe ich Zeit, aber {day2} nicht.
 > Dann {day}. | Alles klar, wir sehen uns {day}.
pt Não posso {day2}, mas {day} posso. | {day} eu tenho tempo, mas {day2} não.
 > Então {day}. | Tudo bem, a gente se vê {day}.
fr {day2}, je ne peux pas, mais {day}, oui. | {day}, j'ai le temps, mais pas {day2}.
 > Alors {day}. | D'accord, on se voit {day}.
ja {day2}はだめですが、{day}は大丈夫です。 | {day}は空いていますが、{day2}は空いていません。
 > では{day}に。 | わかりました、{day}に会いましょう。
it {day2} non posso, ma {day} sì. | {day} ho tempo, ma {day2} no.
 > Allora {day}. | Va bene, ci vediamo {day}.
sv {day2} kan jag inte, men {day} går bra. | {day} har jag tid, men inte {day2}.
 > Då {day}. | Okej, vi ses {day}.
nl {day2} kan ik niet, maar {day} wel. | {day} heb ik tijd, maar {day2} niet.
 > Dan {day}. | Goed, dan zien we elkaar {day}.
ru {day2} я не могу, а {day} могу. | {day} у меня есть время, а {day2} нет.
 > Тогда {day}. | Хорошо, увидимся {day}.

# moved
en The meeting is not {hour2}, but {hour}. | The meeting is {hour} now, no longer {hour2}.
 > Okay, {hour}. | Okay, I'll be there {hour}.
es La reunión no es {hour2}, sino {hour}. | La reunión ahora es {hour}, ya no {hour2}.
 > Vale, {hour}. | Vale, estaré allí {hour}.
de Das Treffen ist nicht {hour2}, sondern {hour}. |
   Das Treffen ist jetzt {hour}, nicht mehr {hour2}.
 > Okay, {hour}. | Okay, ich bin {hour} da.
pt A reunião não é {hour2}, mas {hour}. | A reunião agora é {hour}, não mais {hour2}.
 > Certo, {hour}. | Certo, estarei lá {hour}.
fr La réunion n'est pas {hour2}, mais {hour}. |
   La réunion est maintenant {hour}, et plus {hour2}.
 > D'accord, {hour}. | D'accord, je serai là {hour}.
ja 会議は{hour2}からではなくて、{hour}からです。 |
   会議は{hour}からになりました。もう{hour2}ではありません。
 > {hour}ですね。 | わかりました、{hour}に行きます。
it La riunione non è {hour2}, ma {hour}. | La riunione adesso è {hour}, non più {hour2}.
 > Okay, {hour}. | Okay, ci sarò {hour}.
sv Mötet är inte {hour2}, utan {hour}. | Mötet är {hour} nu, inte längre {hour2}.
 > Okej, {hour}. | Okej, jag kommer dit {hour}.
nl De vergadering is niet {hour2}, maar {hour}. | De vergadering is nu {hour}, niet meer {hour2}.
 > Oké, {hour}. | Oké, ik ben er {hour}.
ru Встреча не {hour2}, а {hour}. | Встреча теперь {hour}, уже не {hour2}.
 > Ладно, {hour}. | Ладно, я буду там {hour}.

# invite
en Do you want to {act} with me {day}? | Shall we {act} together {day}?
 > Yes, {day}. | Gladly, I have time {day}.
es ¿Quieres {act} conmigo {day}? | ¿Te apetece {act} conmigo {day}?
 > Sí, {day}. | Con mucho gusto, {day} tengo tiempo.
de Willst du {day} mit mir {act}? | Wollen wir {day} zusammen {act}?
 > Ja, {day}. | Sehr gern, {day} habe ich Zeit.
pt Você quer {act} comigo {day}? | Vamos {act} juntos {day}?
 > Sim, {day}. | Com prazer, tenho tempo {day}.
fr Tu veux {act} avec moi {day} ? | On va {act} ensemble {day} ?
 > Oui, {day}. | Avec plaisir, je suis libre {day}.
ja {day}に一緒に{act}をしませんか。 | {day}に{act}をしましょうか。
 > はい、{day}に。 | 喜んで、{day}は時間があります。
it Vuoi {act} con me {day}? | Ti va di {act} insieme {day}?
 > Sì, {day}. | Volentieri, {day} ho tempo.
sv Vill du {act} med mig {day}? | Ska vi {act} tillsammans {day}?
 > Ja, {day}. | Gärna, jag har tid {day}.
nl Wil je {day} met mij {act}? | Zullen we {day} samen {act}?
 > Ja, {day}. | Graag, {day} heb ik tijd.
ru Хочешь {day} со мной {act}? | Давай {day} вместе {act}?
 > Да, {day}. | С удовольствием, {day} у меня есть время.

# cancel
en Unfortunately I can't come {day}. | I'm afraid I have no time {day}.
 > Too bad. | Too bad, another time then.
es Por desgracia no puedo ir {day}. | Lo siento, {day} no tengo tiempo.
 > Qué pena. | Qué pena, entonces otro día.
de Leider kann ich {day} nicht kommen. | Leider habe ich {day} keine Zeit.
 > Schade. | Schade, dann ein andermal.
pt Infelizmente não posso ir {day}. | Infelizmente não tenho tempo {day}.
 > Que pena. | Que pena, então fica para outro dia.
fr Malheureusement, je ne peux pas venir {day}. | Désolé, je n'ai pas le temps {day}.
 > Dommage. | Dommage, alors une autre fois.
ja 残念ですが、{day}は行けません。 | すみませんが、{day}は時間がありません。
 > 残念です。 | 残念です、また今度にしましょう。
it Purtroppo {day} non posso venire. | Mi dispiace, {day} non ho tempo.
 > Peccato. | Peccato, allora un'altra volta.
sv Tyvärr kan jag inte komma {day}. | Tyvärr har jag inte tid {day}.
 > Synd. | Synd, en annan gång då.
nl Helaas kan ik {day} niet komen. | Helaas heb ik {day} geen tijd.
 > Jammer. | Jammer, dan een andere keer.
ru К сожалению, я не могу прийти {day}. | К сожалению, {day} у меня нет времени.
 > Жаль. | Жаль, тогда в другой раз.

# after_all
en I can come {day} after all. | Luckily I do have time {day}.
 > Great! | Great, I'm looking forward to it!
es Al final sí puedo ir {day}. | Por suerte, {day} sí tengo tiempo.
 > ¡Genial! | ¡Genial, me alegro mucho!
de Ich kann {day} doch kommen. | Zum Glück habe ich {day} doch Zeit.
 > Toll! | Toll, ich freue mich darauf!
pt No fim das contas, posso ir {day}. | Por sorte, tenho tempo {day}.
 > Ótimo! | Ótimo, fico muito feliz!
fr Finalement, je peux venir {day}. | Par chance, j'ai le temps {day}.
 > Super ! | Super, ça me fait très plaisir !
ja やっぱり{day}に行けます。 | 幸い、{day}は時間があります。
 > よかった。 | よかった、楽しみにしています。
it Alla fine {day} posso venire. | Per fortuna {day} ho tempo.
 > Che bello! | Che bello, non vedo l'ora!
sv Jag kan komma {day} trots allt. | Som tur är har jag tid {day}.
 > Toppen! | Toppen, det ser jag fram emot!
nl Ik kan {day} toch komen. | Gelukkig heb ik {day} toch tijd.
 > Leuk! | Leuk, ik verheug me erop!
ru Я всё-таки могу прийти {day}. | К счастью, {day} у меня есть время.
 > Отлично! | Отлично, буду очень ждать!

# help_me
en Can you help me {day}? | Do you have time to help me {day}?
 > Of course. | Of course, I'm happy to help you.
es ¿Puedes ayudarme {day}? | ¿Tienes tiempo para ayudarme {day}?
 > Claro. | Claro, te ayudo con mucho gusto.
de Kannst du mir {day} helfen? | Hast du {day} Zeit, mir zu helfen?
 > Natürlich. | Natürlich, ich helfe dir gern.
pt Você pode me ajudar {day}? | Você tem tempo para me ajudar {day}?
 > Claro. | Claro, ajudo você com prazer.
fr Tu peux m'aider {day} ? | Tu as le temps de m'aider {day} ?
 > Bien sûr. | Bien sûr, je t'aide avec plaisir.
ja {day}に私を手伝ってくれますか。 | {day}に私を手伝う時間がありますか。
 > もちろん。 | もちろん、喜んで手伝います。
it Puoi aiutarmi {day}? | Hai tempo di aiutarmi {day}?
 > Certo. | Certo, ti aiuto volentieri.
sv Kan du hjälpa mig {day}? | Har du tid att hjälpa mig {day}?
 > Självklart. | Självklart, jag hjälper dig gärna.
nl Kun je mij {day} helpen? | Heb je {day} tijd om mij te helpen?
 > Natuurlijk. | Natuurlijk, ik help je graag.
ru Ты можешь мне помочь {day}? | У тебя есть время помочь мне {day}?
 > Конечно. | Конечно, с радостью помогу.

# help_you
en Can I help you {day}? | I have time to help you {day}.
 > Yes, please. | Yes, please, that's very kind of you.
es ¿Puedo ayudarte {day}? | Tengo tiempo para ayudarte {day}.
 > Sí, por favor. | Sí, por favor, es muy amable de tu parte.
de Kann ich dir {day} helfen? | Ich habe {day} Zeit, dir zu helfen.
 > Ja, bitte. | Ja, bitte, das ist sehr nett von dir.
pt Posso ajudar você {day}? | Tenho tempo para ajudar você {day}.
 > Sim, por favor. | Sim, por favor, é muita gentileza sua.
fr Je peux t'aider {day} ? | J'ai le temps de t'aider {day}.
 > Oui, s'il te plaît. | Oui, s'il te plaît, c'est très gentil.
ja {day}に私が手伝いましょうか。 | {day}に私は手伝う時間があります。
 > お願いします。 | お願いします、とても助かります。
it Posso aiutarti {day}? | Ho tempo di aiutarti {day}.
 > Sì, grazie. | Sì, grazie, è molto gentile da parte tua.
sv Kan jag hjälpa dig {day}? | Jag har tid att hjälpa dig {day}.
 > Ja, tack. | Ja, tack, det är mycket snällt av dig.
nl Kan ik je {day} helpen? | Ik heb {day} tijd om je te helpen.
 > Ja, graag. | Ja, graag, dat is heel aardig van je.
ru Могу я тебе помочь {day}? | У меня есть время помочь тебе {day}.
 > Да, пожалуйста. | Да, пожалуйста, это очень мило с твоей стороны.

# fetch_you
en Can I pick you up {hour} {place}? | I can pick you up {place} {hour}.
 > Yes, {place}. | Thanks, I'll be waiting {place}.
es ¿Puedo recogerte {hour} {place}? | Puedo recogerte {place} {hour}.
 > Sí, {place}. | Gracias, te espero {place}.
de Kann ich dich {hour} {place} abholen? | Ich kann dich {place} {hour} abholen.
 > Ja, {place}. | Danke, ich warte {place} auf dich.
pt Posso buscar você {hour} {place}? | Eu posso buscar você {place} {hour}.
 > Sim, {place}. | Obrigado, espero você {place}.
fr Je peux venir te chercher {hour} {place} ? | Je peux te chercher {place} {hour}.
 > Oui, {place}. | Merci, je t'attends {place}.
ja {hour}に{place}まで迎えに行きましょうか。 | {place}まで{hour}に迎えに行けます。
 > はい、{place}で。 | ありがとう、{place}で待っています。
it Posso venirti a prendere {hour} {place}? | Posso prenderti {place} {hour}.
 > Sì, {place}. | Grazie, ti aspetto {place}.
sv Kan jag hämta dig {hour} {place}? | Jag kan hämta dig {place} {hour}.
 > Ja, {place}. | Tack, jag väntar på dig {place}.
nl Kan ik je {hour} {place} ophalen? | Ik kan je {place} {hour} ophalen.
 > Ja, {place}. | Bedankt, ik wacht {place} op je.
ru Могу я тебя забрать {hour} {place}? | Я могу забрать тебя {place} {hour}.
 > Да, {place}. | Спасибо, жду тебя {place}.

# fetch_me
en Can you pick me up {hour} {place}? | You can pick me up {place} {hour}.
 > Yes, {hour}. | All right, I'll pick you up {hour}.
es ¿Puedes recogerme {hour} {place}? | Puedes recogerme {place} {hour}.
 > Sí, {hour}. | Muy bien, te recojo {hour}.
de Kannst du mich {hour} {place} abholen? | Du kannst mich {place} {hour} abholen.
 > Ja, {hour}. | Alles klar, ich hole dich {hour} ab.
pt Você pode me buscar {hour} {place}? | Você pode me buscar {place} {hour}.
 > Sim, {hour}. | Tudo bem, busco você {hour}.
fr Tu peux venir me chercher {hour} {place} ? | Tu peux me chercher {place} {hour}.
 > Oui, {hour}. | Très bien, je viens te chercher {hour}.
ja {hour}に{place}まで迎えに来てくれますか。 | {place}まで{hour}に迎えに来てください。
 > はい、{hour}に。 | わかりました、{hour}に迎えに行きます。
it Puoi venirmi a prendere {hour} {place}? | Puoi prendermi {place} {hour}.
 > Sì, {hour}. | Va bene, ti vengo a prendere {hour}.
sv Kan du hämta mig {hour} {place}? | Du kan hämta mig {place} {hour}.
 > Ja, {hour}. | Visst, jag hämtar dig {hour}.
nl Kun je mij {hour} {place} ophalen? | Je kunt mij {place} {hour} ophalen.
 > Ja, {hour}. | Goed, ik haal je {hour} op.
ru Можешь меня забрать {hour} {place}? | Ты можешь забрать меня {place} {hour}.
 > Да, {hour}. | Хорошо, заберу тебя {hour}.

# train
en The train leaves {hour} and the bus {hour2}. I'm taking the train. |
   The bus leaves {hour2} and the train {hour}. I'm taking the train.
 > So you leave {hour}. | Then you have to be there {hour}.
es El tren sale {hour} y el autobús {hour2}. Voy en tren. |
   El autobús sale {hour2} y el tren {hour}. Voy en tren.
 > O sea, {hour}. | Entonces tienes que estar allí {hour}.
de Der Zug fährt {hour} und der Bus {hour2}. Ich nehme den Zug. |
   Der Bus fährt {hour2} und der Zug {hour}. Ich nehme den Zug.
 > Also {hour}. | Dann musst du {hour} da sein.
pt O trem sai {hour} e o ônibus {hour2}. Vou de trem. |
   O ônibus sai {hour2} e o trem {hour}. Vou de trem.
 > Ou seja, {hour}. | Então você tem que estar lá {hour}.
fr Le train part {hour} et le bus {hour2}. Je prends le train. |
   Le bus part {hour2} et le train {hour}. Je prends le train.
 > Donc {hour}. | Alors tu dois être là {hour}.
ja 電車は{hour}に、バスは{hour2}に出ます。電車で行きます。 |
   バスは{hour2}に、電車は{hour}に出ます。電車で行きます。
 > {hour}発ですね。 | では{hour}までに着かないといけませんね。
it Il treno parte {hour} e l'autobus {hour2}. Prendo il treno. |
   L'autobus parte {hour2} e il treno {hour}. Prendo il treno.
 > Quindi {hour}. | Allora devi essere lì {hour}.
sv Tåget går {hour} och bussen {hour2}. Jag tar tåget. |
   Bussen går {hour2} och tåget {hour}. Jag tar tåget.
 > Alltså {hour}. | Då måste du vara där {hour}.
nl De trein vertrekt {hour} en de bus {hour2}. Ik neem de trein. |
   De bus vertrekt {hour2} en de trein {hour}. Ik neem de trein.
 > Dus {hour}. | Dan moet je er {hour} zijn.
ru Поезд отходит {hour}, а автобус {hour2}. Я поеду на поезде. |
   Автобус отходит {hour2}, а поезд {hour}. Я поеду на поезде.
 > Значит, {hour}. | Тогда тебе надо быть там {hour}.

# bus = train
en The train leaves {hour2} and the bus {hour}. I'm taking the bus. |
   The bus leaves {hour} and the train {hour2}. I'm taking the bus.
es El tren sale {hour2} y el autobús {hour}. Voy en autobús. |
   El autobús sale {hour} y el tren {hour2}. Voy en autobús.
de Der Zug fährt {hour2} und der Bus {hour}. Ich nehme den Bus. |
   Der Bus fährt {hour} und der Zug {hour2}. Ich nehme den Bus.
pt O trem sai {hour2} e o ônibus {hour}. Vou de ônibus. |
   O ônibus sai {hour} e o trem {hour2}. Vou de ônibus.
fr Le train part {hour2} et le bus {hour}. Je prends le bus. |
   Le bus part {hour} et le train {hour2}. Je prends le bus.
ja 電車は{hour2}に、バスは{hour}に出ます。バスで行きます。 |
   バスは{hour}に、電車は{hour2}に出ます。バスで行きます。
it Il treno parte {hour2} e l'autobus {hour}. Prendo l'autobus. |
   L'autobus parte {hour} e il treno {hour2}. Prendo l'autobus.
sv Tåget går {hour2} och bussen {hour}. Jag tar bussen. |
   Bussen går {hour} och tåget {hour2}. Jag tar bussen.
nl De trein vertrekt {hour2} en de bus {hour}. Ik neem de bus. |
   De bus vertrekt {hour} en de trein {hour2}. Ik neem de bus.
ru Поезд отходит {hour2}, а автобус {hour}. Я поеду на автобусе. |
   Автобус отходит {hour}, а поезд {hour2}. Я поеду на автобусе.

# earliest
en The shop opens {hour} and closes {hour2}. When can I come at the earliest? |
   The shop closes {hour2} and opens {hour}. When can I come at the earliest?
 > At the earliest {hour}. | You can come {hour} at the earliest.
es La tienda abre {hour} y cierra {hour2}. ¿Cuándo puedo ir como muy pronto? |
   La tienda cierra {hour2} y abre {hour}. ¿Cuándo puedo ir como muy pronto?
 > Como muy pronto, {hour}. | Puedes venir, como muy pronto, {hour}.
de Der Laden öffnet {hour} und schließt {hour2}. Wann kann ich frühestens kommen? |
   Der Laden schließt {hour2} und öffnet {hour}. Wann kann ich frühestens kommen?
 > Frühestens {hour}. | Du kannst frühestens {hour} kommen.
pt A loja abre {hour} e fecha {hour2}. Qual é a hora mais cedo para eu ir? |
   A loja fecha {hour2} e abre {hour}. Qual é a hora mais cedo para eu ir?
 > O mais cedo é {hour}. | O mais cedo que você pode vir é {hour}.
fr Le magasin ouvre {hour} et ferme {hour2}. Quand puis-je venir au plus tôt ? |
   Le magasin ferme {hour2} et ouvre {hour}. Quand puis-je venir au plus tôt ?
 > Au plus tôt {hour}. | Tu peux venir au plus tôt {hour}.
ja 店は{hour}に開いて、{hour2}に閉まります。一番早くて何時に行けますか。 |
   店は{hour2}に閉まって、{hour}に開きます。一番早くて何時に行けますか。
 > 早くて{hour}です。 | 一番早くて{hour}に来られます。
it Il negozio apre {hour} e chiude {hour2}. Quando posso venire al più presto? |
   Il negozio chiude {hour2} e apre {hour}. Quando posso venire al più presto?
 > Al più presto {hour}. | Puoi venire al più presto {hour}.
sv Affären öppnar {hour} och stänger {hour2}. När kan jag komma tidigast? |
   Affären stänger {hour2} och öppnar {hour}. När kan jag komma tidigast?
 > Tidigast {hour}. | Du kan komma tidigast {hour}.
nl De winkel gaat {hour} open en sluit {hour2}. Wanneer kan ik op zijn vroegst komen? |
   De winkel sluit {hour2} en gaat {hour} open. Wanneer kan ik op zijn vroegst komen?
 > Op zijn vroegst {hour}. | Je kunt op zijn vroegst {hour} komen.
ru Магазин открывается {hour} и закрывается {hour2}. Когда можно прийти самое раннее? |
   Магазин закрывается {hour2}, а открывается {hour}. Когда можно прийти самое раннее?
 > Самое раннее {hour}. | Можно прийти самое раннее {hour}.

# latest
en The shop opens {hour2} and closes {hour}. When can I come at the latest? |
   The shop closes {hour} and opens {hour2}. When can I come at the latest?
 > At the latest {hour}. | You have to come {hour} at the latest.
es La tienda abre {hour2} y cierra {hour}. ¿Cuándo puedo ir como muy tarde? |
   La tienda cierra {hour} y abre {hour2}. ¿Cuándo puedo ir como muy tarde?
 > Como muy tarde, {hour}. | Tienes que venir, como muy tarde, {hour}.
de Der Laden öffnet {hour2} und schließt {hour}. Wann kann ich spätestens kommen? |
   Der Laden schließt {hour} und öffnet {hour2}. Wann kann ich spätestens kommen?
 > Spätestens {hour}. | Du musst spätestens {hour} kommen.
pt A loja abre {hour2} e fecha {hour}. Qual é a hora mais tarde para eu ir? |
   A loja fecha {hour} e abre {hour2}. Qual é a hora mais tarde para eu ir?
 > O mais tarde é {hour}. | O mais tarde que você pode vir é {hour}.
fr Le magasin ouvre {hour2} et ferme {hour}. Quand puis-je venir au plus tard ? |
   Le magasin ferme {hour} et ouvre {hour2}. Quand puis-je venir au plus tard ?
 > Au plus tard {hour}. | Tu dois venir au plus tard {hour}.
ja 店は{hour2}に開いて、{hour}に閉まります。一番遅くて何時に行けますか。 |
   店は{hour}に閉まって、{hour2}に開きます。一番遅くて何時に行けますか。
 > 遅くて{hour}です。 | 遅くても{hour}に来てください。
it Il negozio apre {hour2} e chiude {hour}. Quando posso venire al più tardi? |
   Il negozio chiude {hour} e apre {hour2}. Quando posso venire al più tardi?
 > Al più tardi {hour}. | Devi venire al più tardi {hour}.
sv Affären öppnar {hour2} och stänger {hour}. När kan jag komma senast? |
   Affären stänger {hour} och öppnar {hour2}. När kan jag komma senast?
 > Senast {hour}. | Du måste komma senast {hour}.
nl De winkel gaat {hour2} open en sluit {hour}. Wanneer kan ik uiterlijk komen? |
   De winkel sluit {hour} en gaat {hour2} open. Wanneer kan ik uiterlijk komen?
 > Uiterlijk {hour}. | Je moet uiterlijk {hour} komen.
ru Магазин открывается {hour2} и закрывается {hour}. Когда можно прийти самое позднее? |
   Магазин закрывается {hour}, а открывается {hour2}. Когда можно прийти самое позднее?
 > Самое позднее {hour}. | Надо прийти самое позднее {hour}.

# lend
en Can you lend me {price}? | I need {price} from you.
 > Here are {price}. | Of course, I can give you {price}.
es ¿Puedes prestarme {price}? | Necesito que me prestes {price}.
 > Toma {price}. | Por supuesto, puedo darte {price}.
de Kannst du mir {price} leihen? | Ich brauche {price} von dir.
 > Hier sind {price}. | Na klar, ich kann dir {price} geben.
pt Você pode me emprestar {price}? | Preciso de {price} emprestados.
 > Aqui estão {price}. | Com certeza, posso dar {price} a você.
fr Tu peux me prêter {price} ? | J'ai besoin que tu me prêtes {price}.
 > Voici {price}. | Évidemment, je peux te donner {price}.
ja {price}貸してくれますか。 | あなたから{price}借りたいです。
 > はい、{price}です。 | いいですよ、{price}貸してあげます。
it Puoi prestarmi {price}? | Ho bisogno di {price} da te.
 > Ecco {price}. | Senz'altro, posso darti {price}.
sv Kan du låna mig {price}? | Jag behöver {price} av dig.
 > Här är {price}. | Javisst, jag kan ge dig {price}.
nl Kun je mij {price} lenen? | Ik heb {price} van je nodig.
 > Hier is {price}. | Jazeker, ik kan je {price} geven.
ru Можешь одолжить мне {price}? | Мне нужно занять у тебя {price}.
 > Вот {price}. | Без проблем, могу дать тебе {price}.

# i_owe
en I still owe you {price}. | I still have to give you back {price}.
 > No hurry. | No hurry, give it to me next time.
es Todavía te debo {price}. | Todavía tengo que devolverte {price}.
 > Sin prisa. | Sin prisa, me lo das la próxima vez.
de Ich schulde dir noch {price}. | Ich muss dir noch {price} zurückgeben.
 > Keine Eile. | Keine Eile, gib es mir nächstes Mal.
pt Ainda devo {price} a você. | Ainda tenho que devolver {price} a você.
 > Sem pressa. | Sem pressa, você me paga na próxima vez.
fr Je te dois encore {price}. | Je dois encore te rendre {price}.
 > Rien ne presse. | Rien ne presse, tu me paieras la prochaine fois.
ja 私はまだあなたに{price}の借りがあります。 | 私はまだあなたに{price}返していません。
 > いつでもいいです。 | いつでもいいです、今度返してください。
it Ti devo ancora {price}. | Devo ancora restituirti {price}.
 > Con calma. | Con calma, me li dai la prossima volta.
sv Jag är fortfarande skyldig dig {price}. | Jag måste ge dig {price} tillbaka.
 > Ingen brådska. | Ingen brådska, ge mig dem nästa gång.
nl Ik ben je nog {price} schuldig. | Ik moet je nog {price} teruggeven.
 > Geen haast. | Geen haast, geef het me de volgende keer.
ru Я ещё должен тебе {price}. | Мне ещё надо вернуть тебе {price}.
 > Не к спеху. | Не к спеху, отдашь в следующий раз.

# you_owe
en You still owe me {price}. | You still have to give me back {price}.
 > Oh, right. | Oh, right, I'll pay you today.
es Todavía me debes {price}. | Todavía tienes que devolverme {price}.
 > Es verdad. | Es verdad, te pago hoy mismo.
de Du schuldest mir noch {price}. | Du musst mir noch {price} zurückgeben.
 > Ach ja. | Ach ja, ich bezahle heute.
pt Você ainda me deve {price}. | Você ainda tem que me devolver {price}.
 > É verdade. | É verdade, pago hoje mesmo.
fr Tu me dois encore {price}. | Tu dois encore me rendre {price}.
 > C'est vrai. | C'est vrai, je te paie aujourd'hui.
ja あなたはまだ私に{price}の借りがあります。 | あなたはまだ私に{price}返していません。
 > そうでした。 | そうでした、今日払います。
it Mi devi ancora {price}. | Devi ancora restituirmi {price}.
 > È vero. | È vero, ti pago oggi.
sv Du är fortfarande skyldig mig {price}. | Du måste ge mig {price} tillbaka.
 > Just det. | Just det, jag betalar i dag.
nl Je bent mij nog {price} schuldig. | Je moet mij nog {price} teruggeven.
 > O ja. | O ja, ik betaal je vandaag.
ru Ты ещё должен мне {price}. | Тебе ещё надо вернуть мне {price}.
 > Точно. | Точно, я заплачу сегодня.

# price
en It used to cost {price2}, now it costs {price}. |
   Now it costs {price}, it used to cost {price2}.
 > So {price}. | I'll buy it for {price}.
es Antes costaba {price2}, ahora cuesta {price}. | Ahora cuesta {price}, antes costaba {price2}.
 > Son {price}. | Lo compro por {price}.
de Früher kostete es {price2}, jetzt kostet es {price}. |
   Jetzt kostet es {price}, früher kostete es {price2}.
 > Also {price}. | Ich kaufe es für {price}.
pt Antes custava {price2}, agora custa {price}. | Agora custa {price}, antes custava {price2}.
 > São {price}. | Eu compro por {price}.
fr Avant, ça coûtait {price2}, maintenant ça coûte {price}. |
   Maintenant, ça coûte {price}, avant, ça coûtait {price2}.
 > Donc {price}. | Je l'achète pour {price}.
ja 前は{price2}でしたが、今は{price}です。 | 今は{price}ですが、前は{price2}でした。
 > {price}ですね。 | {price}で買います。
it Prima costava {price2}, adesso costa {price}. | Adesso costa {price}, prima costava {price2}.
 > Sono {price}. | Lo compro per {price}.
sv Förut kostade det {price2}, nu kostar det {price}. |
   Nu kostar det {price}, förut kostade det {price2}.
 > Alltså {price}. | Jag köper det för {price}.
nl Vroeger kostte het {price2}, nu kost het {price}. |
   Nu kost het {price}, vroeger kostte het {price2}.
 > Dus {price}. | Ik koop het voor {price}.
ru Раньше это стоило {price2}, теперь стоит {price}. |
   Теперь это стоит {price}, раньше стоило {price2}.
 > Значит, {price}. | Куплю за {price}.

# food
en I like {food}, but I don't like {food2}. | I don't like {food2}, but I like {food}.
 > Then {food}. | Then I'll buy {food} for us.
es Me gusta {food}, pero no me gusta {food2}. | No me gusta {food2}, pero me gusta {food}.
 > Mejor {food}. | Entonces compro {food} para los dos.
de Ich mag {food}, aber {food2} mag ich nicht. | {food2} mag ich nicht, aber ich mag {food}.
 > Dann {food}. | Dann kaufe ich {food} für uns.
pt Gosto de {food}, mas não gosto de {food2}. | Não gosto de {food2}, mas gosto de {food}.
 > Então {food}. | Então compro {food} para nós.
fr J'aime {food}, mais je n'aime pas {food2}. | Je n'aime pas {food2}, mais j'aime {food}.
 > Alors {food}. | Alors je choisis {food} pour nous.
ja {food}は好きですが、{food2}は好きではありません。 |
   {food2}は好きではありませんが、{food}は好きです。
 > では{food}を。 | では{food}を買っておきます。
it Mi piace {food}, ma non mi piace {food2}. | Non mi piace {food2}, ma mi piace {food}.
 > Allora {food}. | Allora compro {food} per noi.
sv Jag gillar {food}, men jag gillar inte {food2}. |
   Jag gillar inte {food2}, men jag gillar {food}.
 > Då {food}. | Då köper jag {food} till oss.
nl Ik lust {food}, maar ik lust geen {food2}. | Ik lust geen {food2}, maar ik lust wel {food}.
 > Dan {food}. | Dan koop ik {food} voor ons.
ru Я люблю {food}, но не люблю {food2}. | Я не люблю {food2}, но люблю {food}.
 > Тогда {food}. | Тогда я куплю {food} для нас.

# like
en I like {food} very much. | I really like {food}.
 > So do I. | So do I, we have the same taste.
es Me gusta mucho {food}. | De verdad me gusta {food}.
 > A mí también. | A mí también, tenemos los mismos gustos.
de Ich mag {food} sehr gern. | Ich mag {food} wirklich.
 > Ich auch. | Ich auch, wir haben den gleichen Geschmack.
pt Gosto muito de {food}. | Eu gosto mesmo de {food}.
 > Eu também. | Eu também, temos o mesmo gosto.
fr J'aime beaucoup {food}. | J'aime vraiment {food}.
 > Moi aussi. | Moi aussi, nous avons les mêmes goûts.
ja {food}がとても好きです。 | {food}が本当に好きです。
 > 私も好きです。 | 私も好きです、好みが同じですね。
it Mi piace molto {food}. | Mi piace davvero {food}.
 > Anche a me. | Anche a me, abbiamo gli stessi gusti.
sv Jag gillar {food} mycket. | Jag gillar verkligen {food}.
 > Jag med. | Jag med, vi har samma smak.
nl Ik vind {food} erg lekker. | Ik vind {food} echt lekker.
 > Ik ook. | Ik ook, we hebben dezelfde smaak.
ru Я очень люблю {food}. | Я правда люблю {food}.
 > Я тоже. | Я тоже, у нас одинаковый вкус.

# dislike
en I don't like {food} very much. | I really don't like {food}.
 > Neither do I. | Neither do I, we are very much alike.
es No me gusta mucho {food}. | De verdad no me gusta {food}.
 > A mí tampoco. | A mí tampoco, nos parecemos mucho.
de Ich mag {food} nicht sehr gern. | Ich mag {food} wirklich nicht.
 > Ich auch nicht. | Ich auch nicht, wir sind uns sehr ähnlich.
pt Não gosto muito de {food}. | Eu não gosto mesmo de {food}.
 > Eu também não. | Eu também não, somos muito parecidos.
fr Je n'aime pas beaucoup {food}. | Je n'aime vraiment pas {food}.
 > Moi non plus. | Moi non plus, nous nous ressemblons beaucoup.
ja {food}はあまり好きではありません。 | {food}は本当に好きではありません。
 > 私も苦手です。 | 私も苦手です、似ていますね。
it Non mi piace molto {food}. | Non mi piace davvero {food}.
 > Neanche a me. | Neanche a me, ci somigliamo molto.
sv Jag gillar inte {food} så mycket. | Jag gillar verkligen inte {food}.
 > Inte jag heller. | Inte jag heller, vi är väldigt lika.
nl Ik vind {food} niet erg lekker. | Ik vind {food} echt niet lekker.
 > Ik ook niet. | Ik ook niet, we lijken erg op elkaar.
ru Я не очень люблю {food}. | Я правда не люблю {food}.
 > И я нет. | И я нет, мы очень похожи.

# act
en I'd like to {act}, but I don't want to {act2}. |
   I don't want to {act2}, but I'd like to {act}.
 > Let's {act}! | Good idea, then we can {act}.
es Me gustaría {act}, pero no quiero {act2}. | No quiero {act2}, pero me gustaría {act}.
 > ¡Vamos a {act}! | Buena idea, entonces podemos {act}.
de Ich möchte {act}, aber nicht {act2}. | Ich möchte nicht {act2}, sondern {act}.
 > Lass uns {act}! | Gute Idee, dann können wir {act}.
pt Eu gostaria de {act}, mas não quero {act2}. | Não quero {act2}, mas gostaria de {act}.
 > Vamos {act}! | Boa ideia, então podemos {act}.
fr Je voudrais {act}, mais je ne veux pas {act2}. |
   Je ne veux pas {act2}, mais je voudrais {act}.
 > On va {act} ! | Bonne idée, alors on peut {act}.
ja {act}はしたいですが、{act2}はしたくないです。 | {act2}はしたくないですが、{act}はしたいです。
 > {act}をしましょう。 | いい考えですね、{act}をしましょう。
it Vorrei {act}, ma non voglio {act2}. | Non voglio {act2}, ma vorrei {act}.
 > Andiamo a {act}! | Buona idea, allora possiamo {act}.
sv Jag vill {act}, men jag vill inte {act2}. | Jag vill inte {act2}, men jag vill {act}.
 > Låt oss {act}! | Bra idé, då kan vi {act}.
nl Ik wil {act}, maar ik wil niet {act2}. | Ik wil niet {act2}, maar ik wil wel {act}.
 > Laten we {act}! | Goed idee, dan kunnen we {act}.
ru Я хочу {act}, но не хочу {act2}. | Я не хочу {act2}, но хочу {act}.
 > Давай {act}! | Хорошая мысль, тогда можно {act}.

# fever
en {name} has a fever again. | {name} is in bed again with a fever.
 > Oh no! | Oh no, I hope {name} gets well soon.
es {name} tiene fiebre otra vez. | {name} está otra vez en cama con fiebre.
 > ¡Vaya! | ¡Vaya, espero que {name} se mejore pronto!
de {name} hat wieder Fieber. | {name} liegt wieder mit Fieber im Bett.
 > O je! | O je, hoffentlich wird {name} bald gesund.
pt {name} está com febre de novo. | {name} está de cama de novo com febre.
 > Que chato! | Que chato, espero que {name} melhore logo.
fr {name} a encore de la fièvre. | {name} est encore au lit avec de la fièvre.
 > Oh non ! | Oh non, j'espère que {name} ira bientôt mieux.
ja {name}はまた熱があります。 | {name}はまた熱で寝ています。
 > 大変ですね。 | 大変ですね、{name}が早く治るといいですね。
it {name} ha di nuovo la febbre. | {name} è di nuovo a letto con la febbre.
 > Oh no! | Oh no, spero che {name} guarisca presto.
sv {name} har feber igen. | {name} ligger i sängen med feber igen.
 > Åh nej! | Åh nej, jag hoppas att {name} snart blir frisk.
nl {name} heeft weer koorts. | {name} ligt weer met koorts in bed.
 > O nee! | O nee, hopelijk is {name} snel beter.
ru {name} опять болеет. | {name} опять лежит в постели с температурой.
 > О нет! | О нет, надеюсь, {name} скоро поправится.

# no_fever
en {name} doesn't have a fever any more. | {name} isn't in bed with a fever any more.
 > Good news! | Good news, so {name} is better.
es {name} ya no tiene fiebre. | {name} ya no está en cama con fiebre.
 > ¡Qué bien! | ¡Qué bien que {name} esté mejor!
de {name} hat kein Fieber mehr. | {name} liegt nicht mehr mit Fieber im Bett.
 > Wie schön! | Wie schön, dass es {name} besser geht.
pt {name} não está mais com febre. | {name} não está mais de cama com febre.
 > Que bom! | Que bom que {name} melhorou!
fr {name} n'a plus de fièvre. | {name} n'est plus au lit avec de la fièvre.
 > Tant mieux ! | Tant mieux, {name} va donc bien.
ja {name}はもう熱がありません。 | {name}はもう熱で寝ていません。
 > それはよかった。 | それはよかった、{name}は元気になりましたね。
it {name} non ha più la febbre. | {name} non è più a letto con la febbre.
 > Meno male! | Meno male che {name} sta meglio.
sv {name} har inte feber längre. | {name} ligger inte i sängen med feber längre.
 > Vad skönt! | Vad skönt att {name} mår bättre.
nl {name} heeft geen koorts meer. | {name} ligt niet meer met koorts in bed.
 > Wat fijn! | Wat fijn dat {name} weer beter is.
ru {name} больше не болеет. | {name} больше не лежит в постели с температурой.
 > Как хорошо! | Как хорошо, что {name} больше не болеет.

# first
en {name} comes before {name2}. Who comes first? | {name2} comes after {name}. Who comes first?
 > First {name}. | {name} comes first.
es {name} llega antes que {name2}. ¿Quién llega primero? |
   {name2} llega después que {name}. ¿Quién llega primero?
 > Primero {name}. | Primero llega {name}.
de {name} kommt vor {name2}. Wer kommt zuerst? | {name2} kommt nach {name}. Wer kommt zuerst?
 > Zuerst {name}. | Zuerst kommt {name}.
pt {name} chega antes de {name2}. Quem chega primeiro? |
   {name2} chega depois de {name}. Quem chega primeiro?
 > Primeiro {name}. | Primeiro chega {name}.
fr {name} arrive avant {name2}. Qui arrive en premier ? |
   {name2} arrive après {name}. Qui arrive en premier ?
 > D'abord {name}. | D'abord, c'est {name} qui arrive.
ja {name}は{name2}より先に来ます。誰が先に来ますか。 |
   {name2}は{name}より後に来ます。誰が先に来ますか。
 > {name}が先です。 | {name}が先に来ます。
it {name} arriva prima di {name2}. Chi arriva per primo? |
   {name2} arriva dopo {name}. Chi arriva per primo?
 > Prima {name}. | Prima arriva {name}.
sv {name} kommer före {name2}. Vem kommer först? | {name2} kommer efter {name}. Vem kommer först?
 > Först {name}. | Först kommer {name}.
nl {name} komt voor {name2}. Wie komt er eerst? | {name2} komt na {name}. Wie komt er eerst?
 > Eerst {name}. | Eerst komt {name}.
ru {name} приходит раньше, чем {name2}. Кто придёт сначала? |
   {name2} приходит позже, чем {name}. Кто придёт сначала?
 > Сначала {name}. | Сначала придёт {name}.

# last
en {name2} comes before {name}. Who comes last? | {name} comes after {name2}. Who comes last?
 > Last {name}. | {name} comes last.
es {name2} llega antes que {name}. ¿Quién llega al final? |
   {name} llega después que {name2}. ¿Quién llega al final?
 > Al final {name}. | Al final llega {name}.
de {name2} kommt vor {name}. Wer kommt zuletzt? | {name} kommt nach {name2}. Wer kommt zuletzt?
 > Zuletzt {name}. | Zuletzt kommt {name}.
pt {name2} chega antes de {name}. Quem chega por último? |
   {name} chega depois de {name2}. Quem chega por último?
 > Por último {name}. | Por último chega {name}.
fr {name2} arrive avant {name}. Qui arrive en dernier ? |
   {name} arrive après {name2}. Qui arrive en dernier ?
 > Ensuite {name}. | Ensuite, c'est {name} qui arrive.
ja {name2}は{name}より先に来ます。誰が後に来ますか。 |
   {name}は{name2}より後に来ます。誰が後に来ますか。
 > {name}が後です。 | {name}が後に来ます。
it {name2} arriva prima di {name}. Chi arriva per ultimo? |
   {name} arriva dopo {name2}. Chi arriva per ultimo?
 > Alla fine {name}. | Alla fine arriva {name}.
sv {name2} kommer före {name}. Vem kommer sist? | {name} kommer efter {name2}. Vem kommer sist?
 > Sist {name}. | Sist kommer {name}.
nl {name2} komt voor {name}. Wie komt er het laatst? |
   {name} komt na {name2}. Wie komt er het laatst?
 > Het laatst {name}. | Het laatst komt {name}.
ru {name2} приходит раньше, чем {name}. Кто придёт в конце? |
   {name} приходит позже, чем {name2}. Кто придёт в конце?
 > В конце {name}. | В конце придёт {name}.

# better
en {name} plays better than {name2}. Who is going to win? |
   {name2} plays worse than {name}. Who is going to win?
 > {name}, I think. | I think that {name} will win.
es {name} juega mejor que {name2}. ¿Quién va a ganar? |
   {name2} juega peor que {name}. ¿Quién va a ganar?
 > Creo que {name}. | Creo que va a ganar {name}.
de {name} spielt besser als {name2}. Wer wird gewinnen? |
   {name2} spielt schlechter als {name}. Wer wird gewinnen?
 > Ich glaube, {name}. | Ich glaube, dass {name} gewinnt.
pt {name} joga melhor que {name2}. Quem vai ganhar? |
   {name2} joga pior que {name}. Quem vai ganhar?
 > Acho que {name}. | Acho que {name} vai ganhar.
fr {name} joue mieux que {name2}. Qui va gagner ? |
   {name2} joue moins bien que {name}. Qui va gagner ?
 > Je crois que c'est {name}. | Je crois que {name} va gagner.
ja {name}は{name2}より上手です。誰が勝ちますか。 | {name2}は{name}より下手です。誰が勝ちますか。
 > {name}だと思います。 | {name}が勝つと思います。
it {name} gioca meglio di {name2}. Chi vincerà? | {name2} gioca peggio di {name}. Chi vincerà?
 > Credo {name}. | Credo che vincerà {name}.
sv {name} spelar bättre än {name2}. Vem kommer att vinna? |
   {name2} spelar sämre än {name}. Vem kommer att vinna?
 > Jag tror {name}. | Jag tror att {name} vinner.
nl {name} speelt beter dan {name2}. Wie gaat er winnen? |
   {name2} speelt slechter dan {name}. Wie gaat er winnen?
 > Ik denk {name}. | Ik denk dat {name} wint.
ru {name} играет лучше, чем {name2}. Кто победит? | {name2} играет хуже, чем {name}. Кто победит?
 > Думаю, {name}. | Думаю, что победит {name}.

# lost
en I'm looking for {object}. We were {place} before. |
   We were {place} before, and now I'm looking for {object}.
 > Try looking {place}. | Have another look {place}.
es Estoy buscando {object}. Antes estuvimos {place}. |
   Antes estuvimos {place} y ahora estoy buscando {object}.
 > Mira {place}. | Vuelve a mirar {place}.
de Ich suche {object}. Vorher waren wir {place}. |
   Vorher waren wir {place}, und jetzt suche ich {object}.
 > Such {place}. | Sieh noch einmal {place} nach.
pt Estou procurando {object}. Antes estávamos {place}. |
   Antes estávamos {place} e agora estou procurando {object}.
 > Procure {place}. | Dê mais uma olhada {place}.
fr Je cherche {object}. Avant, nous étions {place}. |
   Avant, nous étions {place} et maintenant je cherche {object}.
 > Cherche {place}. | Regarde encore une fois {place}.
ja {object}を探しています。さっきは{place}にいました。 |
   さっきは{place}にいました。今は{object}を探しています。
 > {place}を見て。 | もう一度{place}を見てください。
it Sto cercando {object}. Prima eravamo {place}. |
   Prima eravamo {place} e adesso sto cercando {object}.
 > Cerca {place}. | Guarda ancora una volta {place}.
sv Jag letar efter {object}. Förut var vi {place}. |
   Förut var vi {place}, och nu letar jag efter {object}.
 > Leta {place}. | Titta en gång till {place}.
nl Ik zoek {object}. Eerder waren we {place}. | Eerder waren we {place}, en nu zoek ik {object}.
 > Zoek {place}. | Kijk nog eens {place}.
ru Я ищу {object}. До этого мы были {place}. | До этого мы были {place}, и теперь я ищу {object}.
 > Поищи {place}. | Посмотри ещё раз {place}.

# looked = lost
en I'm looking for {object}. We have looked {place2}, but not yet {place}. |
   I'm looking for {object}. We haven't looked {place} yet, only {place2}.
es Estoy buscando {object}. Hemos mirado {place2}, pero todavía no {place}. |
   Estoy buscando {object}. Todavía no hemos mirado {place}, solo {place2}.
de Ich suche {object}. Wir haben {place2} nachgesehen, aber noch nicht {place}. |
   Ich suche {object}. Wir haben noch nicht {place} nachgesehen, nur {place2}.
pt Estou procurando {object}. Já procuramos {place2}, mas ainda não {place}. |
   Estou procurando {object}. Ainda não procuramos {place}, só {place2}.
fr Je cherche {object}. Nous avons regardé {place2}, mais pas encore {place}. |
   Je cherche {object}. Nous n'avons pas encore regardé {place}, seulement {place2}.
ja {object}を探しています。{place2}は見ましたが、{place}はまだ見ていません。 |
   {object}を探しています。{place}はまだで、{place2}だけ見ました。
it Sto cercando {object}. Abbiamo guardato {place2}, ma non ancora {place}. |
   Sto cercando {object}. Non abbiamo ancora guardato {place}, solo {place2}.
sv Jag letar efter {object}. Vi har tittat {place2}, men inte {place} än. |
   Jag letar efter {object}. Vi har inte tittat {place} än, bara {place2}.
nl Ik zoek {object}. We hebben {place2} gekeken, maar nog niet {place}. |
   Ik zoek {object}. We hebben nog niet {place} gekeken, alleen {place2}.
ru Я ищу {object}. Мы уже искали {place2}, но ещё не искали {place}. |
   Я ищу {object}. Мы ещё не искали {place}, только {place2}.

# found
en I was lucky to find {object} {place}. | {place} I finally managed to find {object}.
 > What luck! | What luck, take better care next time!
es He tenido la suerte de encontrar {object} {place}. |
   {place} por fin he podido encontrar {object}.
 > ¡Qué suerte! | ¡Qué suerte, ten más cuidado la próxima vez!
de Ich habe {object} zum Glück {place} gefunden. | {place} habe ich endlich {object} gefunden.
 > Was für ein Glück! | Was für ein Glück, pass nächstes Mal besser auf!
pt Tive a sorte de encontrar {object} {place}. | {place} finalmente consegui encontrar {object}.
 > Que sorte! | Que sorte, tome mais cuidado da próxima vez!
fr J'ai eu la chance de retrouver {object} {place}. | {place}, j'ai enfin pu retrouver {object}.
 > Quelle chance ! | Quelle chance, fais plus attention la prochaine fois !
ja 運よく{place}で{object}が見つかりました。 | {place}でやっと{object}が見つかりました。
 > 運がいいですね。 | 運がいいですね、次は気をつけてください。
it Ho avuto la fortuna di ritrovare {object} {place}. | {place} ho finalmente ritrovato {object}.
 > Che fortuna! | Che fortuna, la prossima volta stai più attento!
sv Jag hade tur och hittade {object} {place}. | {place} hittade jag äntligen {object}.
 > Vilken tur! | Vilken tur, var mer försiktig nästa gång!
nl Ik heb {object} gelukkig {place} gevonden. | {place} heb ik eindelijk {object} gevonden.
 > Wat een geluk! | Wat een geluk, pas de volgende keer beter op!
ru Мне повезло найти {object} {place}. | {place} мне наконец удалось найти {object}.
 > Повезло! | Повезло, в следующий раз будь внимательнее!

# trip
en We will be {city} next week. | Next week we are going to spend five days {city}.
 > Have fun! | Have fun {city}!
es La semana que viene estaremos {city}. | La semana que viene vamos a pasar cinco días {city}.
 > ¡Que os divirtáis! | ¡Que os divirtáis {city}!
de Nächste Woche sind wir {city}. | Nächste Woche verbringen wir fünf Tage {city}.
 > Viel Spaß! | Viel Spaß {city}!
pt Na semana que vem estaremos {city}. | Na semana que vem vamos passar cinco dias {city}.
 > Divirtam-se! | Divirtam-se {city}!
fr La semaine prochaine, nous serons {city}. |
   La semaine prochaine, nous allons passer cinq jours {city}.
 > Amusez-vous bien ! | Amusez-vous bien {city} !
ja 来週、私たちは{city}にいます。 | 来週、私たちは{city}で五日過ごします。
 > 楽しんで。 | {city}で楽しんできてください。
it La prossima settimana saremo {city}. | La prossima settimana passeremo cinque giorni {city}.
 > Buon divertimento! | Buon divertimento {city}!
sv Nästa vecka är vi {city}. | Nästa vecka ska vi tillbringa fem dagar {city}.
 > Ha det så kul! | Ha det så kul {city}!
nl Volgende week zijn we {city}. | Volgende week brengen we vijf dagen {city} door.
 > Veel plezier! | Veel plezier {city}!
ru На следующей неделе мы будем {city}. | На следующей неделе мы проведём пять дней {city}.
 > Хорошей поездки! | Хорошо вам провести время {city}!

# was_there
en We were {city} last week. | Last week we spent five days {city}.
 > How was it? | How was it {city}?
es La semana pasada estuvimos {city}. | La semana pasada pasamos cinco días {city}.
 > ¿Qué tal fue? | ¿Qué tal os fue {city}?
de Letzte Woche waren wir {city}. | Letzte Woche verbrachten wir fünf Tage {city}.
 > Wie war es? | Wie war es {city}?
pt Na semana passada estivemos {city}. | Na semana passada passamos cinco dias {city}.
 > Como foi? | Como foi {city}?
fr La semaine dernière, nous étions {city}. |
   La semaine dernière, nous avons passé cinq jours {city}.
 > C'était comment ? | C'était comment {city} ?
ja 先週、私たちは{city}にいました。 | 先週、私たちは{city}で五日過ごしました。
 > どうでしたか。 | {city}はどうでしたか。
it La settimana scorsa eravamo {city}. |
   La settimana scorsa abbiamo passato cinque giorni {city}.
 > Com'è andata? | Com'è andata {city}?
sv Förra veckan var vi {city}. | Förra veckan tillbringade vi fem dagar {city}.
 > Hur var det? | Hur var det {city}?
nl Vorige week waren we {city}. | Vorige week brachten we vijf dagen {city} door.
 > Hoe was het? | Hoe was het {city}?
ru На прошлой неделе мы были {city}. | На прошлой неделе мы провели пять дней {city}.
 > Ну как? | Как вам понравилось {city}?

# rain
en It's going to rain {day}. | The forecast says that it will rain {day}.
 > Then let's stay in. | Then let's stay at home {day}.
es {day} va a llover. | Dicen que {day} va a llover.
 > Nos quedamos. | Entonces nos quedamos en casa {day}.
de {day} wird es regnen. | Es heißt, dass es {day} regnen wird.
 > Bleiben wir hier. | Dann bleiben wir {day} zu Hause.
pt {day} vai chover. | Dizem que {day} vai chover.
 > A gente fica. | Então a gente fica em casa {day}.
fr {day}, il va pleuvoir. | On dit qu'il va pleuvoir {day}.
 > Restons ici. | Alors on reste à la maison {day}.
ja {day}は雨が降るそうです。 | 予報では{day}に雨が降ります。
 > 出かけません。 | では{day}は家にいましょう。
it {day} pioverà. | Dicono che {day} pioverà.
 > Restiamo qui. | Allora restiamo a casa {day}.
sv {day} kommer det att regna. | De säger att det kommer att regna {day}.
 > Vi stannar inne. | Då stannar vi hemma {day}.
nl {day} gaat het regenen. | Ze zeggen dat het {day} gaat regenen.
 > We blijven hier. | Dan blijven we {day} thuis.
ru {day} будет дождь. | Говорят, что {day} будет дождь.
 > Останемся. | Тогда {day} останемся дома.

# no_rain
en It's not going to rain {day}. | The forecast says that it won't rain {day}.
 > Then let's go out. | Then let's go into the garden {day}.
es {day} no va a llover. | Dicen que {day} no va a llover.
 > Salimos. | Entonces salimos al jardín {day}.
de {day} wird es nicht regnen. | Es heißt, dass es {day} nicht regnen wird.
 > Gehen wir raus. | Dann gehen wir {day} in den Garten.
pt {day} não vai chover. | Dizem que {day} não vai chover.
 > A gente sai. | Então a gente vai para o jardim {day}.
fr {day}, il ne va pas pleuvoir. | On dit qu'il ne va pas pleuvoir {day}.
 > Sortons. | Alors on va au jardin {day}.
ja {day}は雨が降らないそうです。 | 予報では{day}に雨が降りません。
 > 出かけましょう。 | では{day}は庭に出ましょう。
it {day} non pioverà. | Dicono che {day} non pioverà.
 > Usciamo. | Allora andiamo in giardino {day}.
sv {day} kommer det inte att regna. | De säger att det inte kommer att regna {day}.
 > Vi går ut. | Då går vi ut i trädgården {day}.
nl {day} gaat het niet regenen. | Ze zeggen dat het {day} niet gaat regenen.
 > We gaan naar buiten. | Dan gaan we {day} naar de tuin.
ru {day} дождя не будет. | Говорят, что {day} дождя не будет.
 > Пойдём гулять. | Тогда {day} пойдём в сад.

# where
en {name} is {place} and {name2} is {place2}. Where is {name}? |
   {name2} is {place2} and {name} is {place}. Where is {name}?
 > {name} is {place}. | You'll find {name} {place}.
es {name} está {place} y {name2} está {place2}. ¿Dónde está {name}? |
   {name2} está {place2} y {name} está {place}. ¿Dónde está {name}?
 > {name} está {place}. | Me parece que {name} está {place}.
de {name} ist {place} und {name2} ist {place2}. Wo ist {name}? |
   {name2} ist {place2} und {name} ist {place}. Wo ist {name}?
 > {name} ist {place}. | Du findest {name} {place}.
pt {name} está {place} e {name2} está {place2}. Onde está {name}? |
   {name2} está {place2} e {name} está {place}. Onde está {name}?
 > {name} está {place}. | Me parece que {name} está {place}.
fr {name} est {place} et {name2} est {place2}. Où est {name} ? |
   {name2} est {place2} et {name} est {place}. Où est {name} ?
 > {name} est {place}. | Tu trouveras {name} {place}.
ja {name}は{place}に、{name2}は{place2}にいます。{name}はどこですか。 |
   {name2}は{place2}に、{name}は{place}にいます。{name}はどこですか。
 > {name}は{place}です。 | {name}は{place}にいますよ。
it {name} è {place} e {name2} è {place2}. Dov'è {name}? |
   {name2} è {place2} e {name} è {place}. Dov'è {name}?
 > {name} è {place}. | Mi pare che {name} sia {place}.
sv {name} är {place} och {name2} är {place2}. Var är {name}? |
   {name2} är {place2} och {name} är {place}. Var är {name}?
 > {name} är {place}. | Du hittar {name} {place}.
nl {name} is {place} en {name2} is {place2}. Waar is {name}? |
   {name2} is {place2} en {name} is {place}. Waar is {name}?
 > {name} is {place}. | Je vindt {name} {place}.
ru {name} {place}, а {name2} {place2}. Где {name}? |
   {name2} {place2}, а {name} {place}. Где {name}?
 > {name} {place}. | Кажется, {name} {place}.

# success
en {success}
 > Congratulations! | Congratulations, that is wonderful!
es {success}
 > ¡Enhorabuena! | ¡Enhorabuena, es maravilloso!
de {success}
 > Glückwunsch! | Glückwunsch, das ist wunderbar!
pt {success}
 > Parabéns! | Parabéns, que maravilha!
fr {success}
 > Félicitations ! | Félicitations, c'est merveilleux !
ja {success}
 > おめでとう。 | おめでとう、すばらしいですね。
it {success}
 > Complimenti! | Complimenti, è meraviglioso!
sv {success}
 > Grattis! | Grattis, det är underbart!
nl {success}
 > Gefeliciteerd! | Gefeliciteerd, dat is geweldig!
ru {success}
 > Поздравляю! | Поздравляю, это чудесно!

# failure
en {failure}
 > I'm sorry. | I'm sorry, it will work next time.
es {failure}
 > Lo siento. | Lo siento, la próxima vez saldrá bien.
de {failure}
 > Das tut mir leid. | Das tut mir leid, nächstes Mal klappt es.
pt {failure}
 > Sinto muito. | Sinto muito, na próxima vez vai dar certo.
fr {failure}
 > Je suis désolé. | Je suis désolé, ça marchera la prochaine fois.
ja {failure}
 > 元気を出して。 | 元気を出して、次はうまくいきます。
it {failure}
 > Mi dispiace. | Mi dispiace, la prossima volta andrà bene.
sv {failure}
 > Jag beklagar. | Jag beklagar, nästa gång går det bättre.
nl {failure}
 > Wat spijtig. | Wat spijtig, de volgende keer lukt het.
ru {failure}
 > Мне жаль. | Мне жаль, в следующий раз получится.

# how_are_you
en How are you?
 > Fine, thanks. | Fine, thanks, and you?
es ¿Cómo estás?
 > Bien, gracias. | Bien, gracias, ¿y tú?
de Wie geht es dir?
 > Gut, danke. | Gut, danke, und dir?
pt Como vai você?
 > Bem, obrigado. | Bem, obrigado, e você?
fr Comment vas-tu ?
 > Bien, merci. | Bien, merci, et toi ?
ja お元気ですか。
 > 元気です。 | 元気です、あなたはどうですか。
it Come stai?
 > Bene, grazie. | Bene, grazie, e tu?
sv Hur mår du?
 > Bra, tack. | Bra, tack, hur mår du själv?
nl Hoe gaat het met je?
 > Goed, dank je. | Goed, dank je, en met jou?
ru Как дела?
 > Хорошо, спасибо. | Хорошо, спасибо, а у тебя?

# seat
en Is this seat free?
 > Yes, it's free. | Yes, it's free, do sit down.
es ¿Está libre este asiento?
 > Está libre. | Está libre, siéntate aquí.
de Ist dieser Platz frei?
 > Er ist frei. | Er ist frei, setz dich doch.
pt Este lugar está livre?
 > Está livre. | Está livre, pode se sentar.
fr Cette place est libre ?
 > Elle est libre. | Elle est libre, assieds-toi.
ja この席は空いていますか。
 > 空いています。 | 空いています、どうぞ座ってください。
it È libero questo posto?
 > È libero. | È libero, siediti pure.
sv Är den här platsen ledig?
 > Den är ledig. | Den är ledig, slå dig ner.
nl Is deze plaats vrij?
 > Die is vrij. | Die is vrij, ga maar zitten.
ru Это место свободно?
 > Свободно. | Свободно, садись.

# cold
en It's too cold in here.
 > I'll close the window. | Wait, I'll close the window at once.
es Aquí hace demasiado frío.
 > Cierro la ventana. | Espera, cierro la ventana enseguida.
de Hier ist es zu kalt.
 > Ich schließe das Fenster. | Warte, ich schließe gleich das Fenster.
pt Está frio demais aqui.
 > Vou fechar a janela. | Espere, vou fechar a janela já.
fr Il fait trop froid ici.
 > Je ferme la fenêtre. | Attends, je ferme tout de suite la fenêtre.
ja ここは寒すぎます。
 > 窓を閉めます。 | 待って、すぐに窓を閉めます。
it Qui fa troppo freddo.
 > Chiudo la finestra. | Aspetta, chiudo subito la finestra.
sv Det är för kallt här inne.
 > Jag stänger fönstret. | Vänta, jag stänger fönstret genast.
nl Het is hier te koud.
 > Ik doe het raam dicht. | Wacht, ik doe het raam meteen dicht.
ru Здесь слишком холодно.
 > Я закрою окно. | Подожди, я сейчас закрою окно.

# hot
en It's too hot in here.
 > I'll open the window. | Wait, I'll open the window at once.
es Aquí hace demasiado calor.
 > Abro la ventana. | Espera, abro la ventana enseguida.
de Hier ist es zu heiß.
 > Ich öffne das Fenster. | Warte, ich öffne gleich das Fenster.
pt Está quente demais aqui.
 > Vou abrir a janela. | Espere, vou abrir a janela já.
fr Il fait trop chaud ici.
 > J'ouvre la fenêtre. | Attends, j'ouvre tout de suite la fenêtre.
ja ここは暑すぎます。
 > 窓を開けます。 | 待って、すぐに窓を開けます。
it Qui fa troppo caldo.
 > Apro la finestra. | Aspetta, apro subito la finestra.
sv Det är för varmt här inne.
 > Jag öppnar fönstret. | Vänta, jag öppnar fönstret genast.
nl Het is hier te warm.
 > Ik doe het raam open. | Wacht, ik doe het raam meteen open.
ru Здесь слишком жарко.
 > Я открою окно. | Подожди, я сейчас открою окно.

# hungry
en I'm hungry.
 > Let's eat. | Let's eat something together.
es Tengo hambre.
 > Vamos a comer. | Vamos a comer algo los dos.
de Ich habe Hunger.
 > Lass uns essen. | Lass uns zusammen etwas essen.
pt Estou com fome.
 > Vamos comer. | Vamos comer alguma coisa.
fr J'ai faim.
 > On mange. | On mange quelque chose ensemble.
ja お腹がすきました。
 > 食べましょう。 | 一緒に何か食べましょう。
it Ho fame.
 > Mangiamo. | Mangiamo qualcosa insieme.
sv Jag är hungrig.
 > Vi äter. | Vi äter något tillsammans.
nl Ik heb honger.
 > Laten we eten. | Laten we samen iets eten.
ru Я хочу есть.
 > Давай поедим. | Давай вместе что-нибудь поедим.

# not_hungry
en I'm not hungry yet.
 > Later, then. | Later, then, we still have time.
es Todavía no tengo hambre.
 > Más tarde. | Más tarde, todavía hay tiempo.
de Ich habe noch keinen Hunger.
 > Dann später. | Dann später, wir haben noch Zeit.
pt Ainda não estou com fome.
 > Mais tarde. | Mais tarde, ainda temos tempo.
fr Je n'ai pas encore faim.
 > Plus tard alors. | Plus tard alors, nous avons encore le temps.
ja まだお腹がすいていません。
 > では後で。 | では後で、まだ時間があります。
it Non ho ancora fame.
 > Più tardi. | Più tardi, abbiamo ancora tempo.
sv Jag är inte hungrig än.
 > Senare då. | Senare då, vi har fortfarande tid.
nl Ik heb nog geen honger.
 > Dan later. | Dan later, we hebben nog tijd.
ru Я ещё не хочу есть.
 > Тогда позже. | Тогда позже, время ещё есть.

# thirsty
en I'm thirsty.
 > I'll get you water. | I'll get you a big glass of water.
es Tengo sed.
 > Te traigo agua. | Te traigo un vaso grande de agua.
de Ich habe Durst.
 > Ich hole dir Wasser. | Ich hole dir ein großes Glas Wasser.
pt Estou com sede.
 > Vou trazer água. | Vou trazer um copo grande de água.
fr J'ai soif.
 > Je t'apporte de l'eau. | Je t'apporte un grand verre d'eau.
ja 喉が渇きました。
 > 水を持ってきます。 | 大きいコップで水を持ってきます。
it Ho sete.
 > Ti porto dell'acqua. | Ti porto un bel bicchiere d'acqua.
sv Jag är törstig.
 > Jag hämtar vatten. | Jag hämtar ett stort glas vatten.
nl Ik heb dorst.
 > Ik haal water. | Ik haal een groot glas water voor je.
ru Я хочу пить.
 > Принесу воды. | Принесу тебе большой стакан воды.

# sleepy
en I just want to sleep.
 > Go to bed. | Go to bed early tonight.
es Tengo mucho sueño.
 > Vete a la cama. | Vete a la cama temprano esta noche.
de Ich will nur noch schlafen.
 > Geh ins Bett. | Geh heute früh ins Bett.
pt Estou com muito sono.
 > Vá para a cama. | Vá para a cama cedo hoje.
fr J'ai très sommeil.
 > Va au lit. | Va au lit de bonne heure ce soir.
ja とても眠いです。
 > 寝てください。 | 今夜は早く寝てください。
it Ho molto sonno.
 > Vai a letto. | Vai a letto presto stasera.
sv Jag vill bara sova.
 > Gå och lägg dig. | Gå och lägg dig tidigt i kväll.
nl Ik wil alleen maar slapen.
 > Ga naar bed. | Ga vanavond vroeg naar bed.
ru Я очень хочу спать.
 > Иди спать. | Иди сегодня спать пораньше.

# present
en Thank you very much for the present!
 > You're welcome. | You're welcome, it's only a small thing.
es ¡Muchas gracias por el regalo!
 > De nada. | De nada, es solo un detalle.
de Vielen Dank für das Geschenk!
 > Gern geschehen. | Gern geschehen, es ist nur eine Kleinigkeit.
pt Muito obrigado pelo presente!
 > De nada. | De nada, é só uma lembrancinha.
fr Merci beaucoup pour le cadeau !
 > De rien. | De rien, c'est peu de chose.
ja プレゼントをありがとうございました。
 > どういたしまして。 | どういたしまして、ほんの気持ちです。
it Grazie mille per il regalo!
 > Prego. | Prego, è solo un pensierino.
sv Tack så mycket för presenten!
 > Varsågod. | Varsågod, det är bara en liten sak.
nl Hartelijk bedankt voor het cadeau!
 > Graag gedaan. | Graag gedaan, het is maar een kleinigheid.
ru Большое спасибо за подарок!
 > Не за что. | Не за что, это просто мелочь.

# sorry
en Sorry for being late.
 > Never mind. | Never mind, there is no harm done.
es Perdón por el retraso.
 > No importa. | No importa, no ha pasado nada.
de Entschuldige die Verspätung.
 > Macht nichts. | Macht nichts, es ist nichts passiert.
pt Desculpe pelo atraso.
 > Não faz mal. | Não faz mal, não aconteceu nada.
fr Pardon pour le retard.
 > Ce n'est rien. | Ce n'est rien, il n'y a pas de mal.
ja 遅れてすみません。
 > 大丈夫です。 | 大丈夫です、気にしないでください。
it Scusa per il ritardo.
 > Non importa. | Non importa, non è successo niente.
sv Förlåt att jag är sen.
 > Det gör inget. | Det gör inget, ingen skada skedd.
nl Sorry dat ik te laat ben.
 > Geeft niet. | Geeft niet, er is niets gebeurd.
ru Извини за опоздание.
 > Ничего. | Ничего, всё в порядке.

# birthday
en Today is my birthday.
 > Happy birthday! | Happy birthday and all the best!
es Hoy es mi cumpleaños.
 > ¡Feliz cumpleaños! | ¡Feliz cumpleaños y todo lo mejor!
de Heute ist mein Geburtstag.
 > Alles Gute! | Alles Gute zum Geburtstag und viel Glück!
pt Hoje é meu aniversário.
 > Feliz aniversário! | Feliz aniversário e tudo de bom!
fr Aujourd'hui, c'est mon anniversaire.
 > Joyeux anniversaire ! | Joyeux anniversaire et tous mes vœux !
ja 今日は私の誕生日です。
 > お誕生日おめでとう。 | お誕生日おめでとう、よい一年を。
it Oggi è il mio compleanno.
 > Buon compleanno! | Buon compleanno e tanti auguri!
sv I dag är det min födelsedag.
 > Grattis på födelsedagen! | Grattis på födelsedagen och allt gott!
nl Vandaag is het mijn verjaardag.
 > Fijne verjaardag! | Fijne verjaardag en alle goeds!
ru Сегодня мой день рождения.
 > С днём рождения! | С днём рождения и всего хорошего!

# birthday_tomorrow
en Tomorrow is my birthday.
 > We'll celebrate! | We'll celebrate that tomorrow!
es Mañana es mi cumpleaños.
 > ¡A celebrarlo! | ¡Mañana vamos a celebrarlo!
de Morgen ist mein Geburtstag.
 > Das feiern wir! | Das feiern wir morgen zusammen!
pt Amanhã é meu aniversário.
 > Vamos comemorar! | Amanhã vamos comemorar juntos!
fr Demain, c'est mon anniversaire.
 > On va fêter ça ! | On va fêter ça demain !
ja 明日は私の誕生日です。
 > お祝いしましょう。 | 明日みんなでお祝いしましょう。
it Domani è il mio compleanno.
 > Festeggiamo! | Domani festeggiamo insieme!
sv I morgon är det min födelsedag.
 > Det firar vi! | Det firar vi i morgon!
nl Morgen is het mijn verjaardag.
 > Dat vieren we! | Dat vieren we morgen samen!
ru Завтра мой день рождения.
 > Отметим! | Завтра вместе отметим!

# birthday_yesterday
en Yesterday was my birthday.
 > Belated best wishes! | Belated best wishes, did you celebrate?
es Ayer fue mi cumpleaños.
 > ¡Felicidades con retraso! | ¡Felicidades con retraso! ¿Lo celebraste?
de Gestern war mein Geburtstag.
 > Nachträglich alles Gute! | Nachträglich alles Gute, hast du gefeiert?
pt Ontem foi meu aniversário.
 > Parabéns atrasados! | Parabéns atrasados, você comemorou?
fr Hier, c'était mon anniversaire.
 > Bon anniversaire en retard ! | Bon anniversaire en retard, tu as fait la fête ?
ja 昨日は私の誕生日でした。
 > 遅れましたがおめでとう。 | 遅れましたがおめでとう、お祝いしましたか。
it Ieri era il mio compleanno.
 > Auguri in ritardo! | Auguri in ritardo, hai festeggiato?
sv I går var det min födelsedag.
 > Grattis i efterskott! | Grattis i efterskott, firade du?
nl Gisteren was het mijn verjaardag.
 > Alsnog gefeliciteerd! | Alsnog gefeliciteerd, heb je het gevierd?
ru Вчера был мой день рождения.
 > С прошедшим! | С прошедшим, у тебя был праздник?

# night
en Good night!
 > Sleep well! | Sleep well and sweet dreams!
es ¡Buenas noches!
 > ¡Que duermas bien! | ¡Que duermas bien y dulces sueños!
de Gute Nacht!
 > Schlaf gut! | Schlaf gut und träum schön!
pt Boa noite!
 > Durma bem! | Durma bem e bons sonhos!
fr Bonne nuit !
 > Dors bien ! | Dors bien et fais de beaux rêves !
ja おやすみなさい。
 > よく寝てね。 | よく寝てね、いい夢を見てね。
it Buona notte!
 > Dormi bene! | Dormi bene e sogni d'oro!
sv God natt!
 > Sov gott! | Sov gott och dröm sött!
nl Welterusten!
 > Slaap lekker! | Slaap lekker en droom zacht!
ru Спокойной ночи!
 > Сладких снов! | Сладких снов и до завтра!

# headache
en I have a headache.
 > Get some rest. | Get some rest, then you'll feel better.
es Me duele la cabeza.
 > Descansa un poco. | Descansa un poco, así te sentirás mejor.
de Ich habe Kopfschmerzen.
 > Ruh dich aus. | Ruh dich aus, dann geht es dir besser.
pt Estou com dor de cabeça.
 > Descanse um pouco. | Descanse um pouco, assim você melhora.
fr J'ai mal à la tête.
 > Repose-toi. | Repose-toi, ça ira mieux après.
ja 頭が痛いです。
 > 休んでください。 | 休んでください、きっとよくなります。
it Ho mal di testa.
 > Riposati un po'. | Riposati un po', così ti passa.
sv Jag har ont i huvudet.
 > Vila lite. | Vila lite, så känns det bättre.
nl Ik heb hoofdpijn.
 > Rust wat uit. | Rust wat uit, dan gaat het beter.
ru У меня болит голова.
 > Отдохни. | Отдохни, и станет лучше.

# doorbell
en The doorbell is ringing.
 > I'll get it. | I'll get it, I'm expecting a parcel.
es Está sonando el timbre.
 > Ya abro. | Ya abro, espero un paquete.
de Es klingelt an der Tür.
 > Ich gehe hin. | Ich gehe hin, ich erwarte ein Paket.
pt A campainha está tocando.
 > Eu atendo. | Eu atendo, espero uma encomenda.
fr On sonne à la porte.
 > J'y vais. | J'y vais, j'attends un paquet.
ja 玄関のベルが鳴っています。
 > 私が出ます。 | 私が出ます、荷物が届くはずです。
it Suonano alla porta.
 > Vado io. | Vado io, aspetto un pacco.
sv Det ringer på dörren.
 > Jag öppnar. | Jag öppnar, jag väntar på ett paket.
nl Er wordt aangebeld.
 > Ik ga al. | Ik ga al, ik verwacht een pakje.
ru Звонят в дверь.
 > Я открою. | Я открою, мне должны принести посылку.

# coffee
en The coffee is cold.
 > I'll make some more. | I'll make some more, it won't take long.
es El café está frío.
 > Hago otro. | Hago otro, no tarda mucho.
de Der Kaffee ist kalt.
 > Ich koche neuen. | Ich koche neuen, das dauert nicht lange.
pt O café está frio.
 > Faço outro. | Faço outro, não demora muito.
fr Le café est froid.
 > J'en refais. | J'en refais, ce ne sera pas long.
ja コーヒーが冷めています。
 > 入れ直します。 | 入れ直します、少し待ってください。
it Il caffè è freddo.
 > Ne faccio un altro. | Ne faccio un altro, ci vuole poco.
sv Kaffet är kallt.
 > Jag kokar nytt. | Jag kokar nytt, det går fort.
nl De koffie is koud.
 > Ik zet nieuwe. | Ik zet nieuwe, dat duurt niet lang.
ru Кофе остыл.
 > Сварю новый. | Сварю новый, это недолго.

# fast
en You are speaking too fast.
 > I'll slow down. | I'll slow down, then you'll understand me better.
es Hablas demasiado rápido.
 > Voy más despacio. | Voy más despacio, así me entiendes mejor.
de Du sprichst zu schnell.
 > Ich spreche langsamer. | Ich spreche langsamer, dann verstehst du mich besser.
pt Você fala rápido demais.
 > Vou falar devagar. | Vou falar devagar, assim você me entende melhor.
fr Tu parles trop vite.
 > Je vais ralentir. | Je vais ralentir, tu me comprendras mieux.
ja 話すのが速すぎます。
 > ゆっくり話します。 | ゆっくり話します、その方がわかりやすいですね。
it Parli troppo in fretta.
 > Parlo più piano. | Parlo più piano, così mi capisci meglio.
sv Du talar för fort.
 > Jag talar långsammare. | Jag talar långsammare, så förstår du bättre.
nl Je praat te snel.
 > Ik praat langzamer. | Ik praat langzamer, dan begrijp je mij beter.
ru Ты говоришь слишком быстро.
 > Буду говорить медленнее. | Буду говорить медленнее, чтобы было понятно.

# quiet
en You are speaking too quietly.
 > I'll speak up. | I'll speak up, then you'll hear me better.
es Hablas demasiado bajo.
 > Voy a hablar más alto. | Voy a hablar más alto, así me oyes mejor.
de Du sprichst zu leise.
 > Ich spreche lauter. | Ich spreche lauter, dann hörst du mich besser.
pt Você fala baixo demais.
 > Vou falar mais alto. | Vou falar mais alto, assim você me ouve melhor.
fr Tu parles trop doucement.
 > Je vais parler plus fort. | Je vais parler plus fort, tu m'entendras mieux.
ja 話す声が小さすぎます。
 > 大きい声で話します。 | 大きい声で話します、その方が聞こえますね。
it Parli troppo a bassa voce.
 > Parlo più forte. | Parlo più forte, così mi senti meglio.
sv Du talar för tyst.
 > Jag talar högre. | Jag talar högre, så hör du bättre.
nl Je praat te zacht.
 > Ik praat harder. | Ik praat harder, dan hoor je mij beter.
ru Ты говоришь слишком тихо.
 > Буду говорить громче. | Буду говорить громче, чтобы было слышно.

# bored
en I'm getting bored.
 > Let's play something. | Let's play something, there are cards on the shelf.
es Me aburro un poco.
 > Juguemos a algo. | Juguemos a algo, hay cartas en el estante.
de Mir wird langweilig.
 > Spielen wir etwas. | Spielen wir etwas, im Regal liegen Karten.
pt Estou sem nada para fazer.
 > Vamos jogar algo. | Vamos jogar algo, tem um baralho na estante.
fr Je m'ennuie un peu.
 > Jouons à quelque chose. | Jouons à quelque chose, il y a des cartes sur l'étagère.
ja 退屈になってきました。
 > 何かで遊びましょう。 | 何かで遊びましょう、棚にトランプがあります。
it Mi sto annoiando.
 > Giochiamo a qualcosa. | Giochiamo a qualcosa, ci sono le carte sullo scaffale.
sv Jag börjar få tråkigt.
 > Vi spelar något. | Vi spelar något, det finns kort på hyllan.
nl Ik begin me te vervelen.
 > We doen een spelletje. | We doen een spelletje, er liggen kaarten op de plank.
ru Мне скучно.
 > Давай сыграем. | Давай сыграем, на полке есть карты.

# missed_bus
en We missed the last bus.
 > Let's walk. | Let's walk home, it isn't far.
es Hemos perdido el último autobús.
 > Vamos a pie. | Vamos a casa a pie, no está lejos.
de Wir haben den letzten Bus verpasst.
 > Gehen wir zu Fuß. | Gehen wir zu Fuß nach Hause, es ist nicht weit.
pt Perdemos o último ônibus.
 > Vamos a pé. | Vamos a pé para casa, não é longe.
fr Nous avons raté le dernier bus.
 > Marchons. | Marchons jusqu'à la maison, ce n'est pas loin.
ja 最終バスに乗り遅れました。
 > 歩きましょう。 | 家まで歩きましょう、遠くありません。
it Abbiamo perso l'ultimo autobus.
 > Andiamo a piedi. | Andiamo a casa a piedi, non è lontano.
sv Vi missade sista bussen.
 > Vi går. | Vi går hem, det är inte långt.
nl We hebben de laatste bus gemist.
 > We gaan lopen. | We gaan naar huis lopen, het is niet ver.
ru Мы опоздали на последний автобус.
 > Пойдём пешком. | Пойдём домой пешком, это недалеко.
"""
