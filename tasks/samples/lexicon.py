"""The words of the sample corpora: closed lists, one row a meaning, in four languages.

`sample` draws the meanings of one example; `forms` spells them in one language, as phrases that
fit into a sentence as they are. A row keeps what the spelling needs: gender, and the adjective's
stem for German. Names and towns are the same in all languages and start with a consonant, so
French never elides before them.
"""

import random

LANGUAGES = ('en', 'de', 'fr', 'es')

_WOMEN = """
Nora Clara Lena Marta Julia Sofia Paula Vera Pia Lucia Carla Nina Silvia Teresa Diana Monica Greta
Dora
"""
_MEN = """
Victor Martin David Leo Simon Bruno Daniel Felix Tomas Pablo Robert Samuel Marco Ruben Karl Jonas
Milan Boris
"""
# Invented.
_TOWNS = """
Torvik Belmora Kardun Lunden Sarvela Pellworn Ristova Calvena Dorvan Fendrik Galmira Vostrum
Tilsona Nebrun Zelmin Quarlo Bresko Lomary Pantavi Rondel Tarnel Wembra Kestrin Jolmar Basleno
Corvina Mirel Pradosk
"""

# en: adjective noun | de: gender stem noun | fr, es: gender phrase.
_OBJECTS = """
red lantern | f rot Laterne | f lanterne rouge | f linterna roja
old clock | f alt Uhr | f vieille horloge | m reloj antiguo
blue bicycle | n blau Fahrrad | m vélo bleu | f bicicleta azul
wooden flute | f hölzern Flöte | f flûte en bois | f flauta de madera
silver key | m silbern Schlüssel | f clé en argent | f llave de plata
green umbrella | m grün Regenschirm | m parapluie vert | m paraguas verde
small boat | n klein Boot | m petit bateau | m barco pequeño
heavy suitcase | m schwer Koffer | f valise lourde | f maleta pesada
white guitar | f weiß Gitarre | f guitare blanche | f guitarra blanca
golden ring | m golden Ring | f bague en or | m anillo de oro
yellow kite | m gelb Drachen | m cerf-volant jaune | f cometa amarilla
thick dictionary | n dick Wörterbuch | m gros dictionnaire | m diccionario grueso
round mirror | m rund Spiegel | m miroir rond | m espejo redondo
black hat | m schwarz Hut | m chapeau noir | m sombrero negro
soft blanket | f weich Decke | f couverture douce | f manta suave
long ladder | f lang Leiter | f longue échelle | f escalera larga
big drum | f groß Trommel | m grand tambour | m tambor grande
Turkish carpet | m türkisch Teppich | m tapis turc | f alfombra turca
brown bench | f braun Bank | m banc brun | m banco marrón
rare stamp | f selten Briefmarke | m timbre rare | m sello raro
copper kettle | m kupfern Kessel | f bouilloire en cuivre | f tetera de cobre
sharp knife | n scharf Messer | m couteau tranchant | m cuchillo afilado
new camera | f neu Kamera | m appareil photo neuf | f cámara nueva
glass vase | f gläsern Vase | m vase en verre | m jarrón de cristal
warm scarf | m warm Schal | f écharpe chaude | f bufanda cálida
square table | m eckig Tisch | f table carrée | f mesa cuadrada
strong rope | n stark Seil | f corde solide | f cuerda fuerte
tiny telescope | n winzig Fernrohr | m télescope minuscule | m telescopio diminuto
grey coat | m grau Mantel | m manteau gris | m abrigo gris
precious violin | f wertvoll Geige | m violon précieux | m violín valioso
empty barrel | n leer Fass | m tonneau vide | m barril vacío
strange map | f seltsam Karte | f carte étrange | m mapa extraño
colourful mask | f bunt Maske | m masque coloré | f máscara colorida
light tent | n leicht Zelt | f tente légère | f tienda ligera
"""

# en | de man, woman | fr man, woman | es man, woman.
_JOBS = """
baker | Bäcker, Bäckerin | boulanger, boulangère | panadero, panadera
teacher | Lehrer, Lehrerin | professeur, professeure | profesor, profesora
doctor | Arzt, Ärztin | médecin, médecin | médico, médica
gardener | Gärtner, Gärtnerin | jardinier, jardinière | jardinero, jardinera
painter | Maler, Malerin | peintre, peintre | pintor, pintora
farmer | Bauer, Bäuerin | fermier, fermière | granjero, granjera
singer | Sänger, Sängerin | chanteur, chanteuse | cantante, cantante
carpenter | Tischler, Tischlerin | menuisier, menuisière | carpintero, carpintera
journalist | Journalist, Journalistin | journaliste, journaliste | periodista, periodista
waiter, waitress | Kellner, Kellnerin | serveur, serveuse | camarero, camarera
judge | Richter, Richterin | juge, juge | juez, jueza
dentist | Zahnarzt, Zahnärztin | dentiste, dentiste | dentista, dentista
pilot | Pilot, Pilotin | pilote, pilote | piloto, piloto
butcher | Metzger, Metzgerin | boucher, bouchère | carnicero, carnicera
tailor | Schneider, Schneiderin | couturier, couturière | modisto, modista
hunter | Jäger, Jägerin | chasseur, chasseuse | cazador, cazadora
dancer | Tänzer, Tänzerin | danseur, danseuse | bailarín, bailarina
engineer | Ingenieur, Ingenieurin | ingénieur, ingénieure | ingeniero, ingeniera
lawyer | Anwalt, Anwältin | avocat, avocate | abogado, abogada
nurse | Pfleger, Pflegerin | infirmier, infirmière | enfermero, enfermera
archivist | Archivar, Archivarin | archiviste, archiviste | archivero, archivera
writer | Schriftsteller, Schriftstellerin | écrivain, écrivaine | escritor, escritora
cook | Koch, Köchin | cuisinier, cuisinière | cocinero, cocinera
hairdresser | Friseur, Friseurin | coiffeur, coiffeuse | peluquero, peluquera
student | Student, Studentin | étudiant, étudiante | estudiante, estudiante
photographer | Fotograf, Fotografin | photographe, photographe | fotógrafo, fotógrafa
"""

# Things to count. French: masculine only, so one plural participle agrees; es: gender plural.
_THINGS = """
books | Bücher | livres | m libros
glasses | Gläser | verres | m vasos
lemons | Zitronen | citrons | m limones
cakes | Kuchen | gâteaux | m pasteles
stools | Hocker | tabourets | m taburetes
pens | Stifte | stylos | m bolígrafos
baskets | Körbe | paniers | f cestas
tickets | Eintrittskarten | billets | f entradas
pictures | Bilder | tableaux | m cuadros
pumpkins | Kürbisse | potirons | f calabazas
mushrooms | Pilze | champignons | f setas
melons | Melonen | melons | m melones
cheeses | Käse | fromages | m quesos
newspapers | Zeitungen | journaux | m periódicos
calendars | Kalender | calendriers | m calendarios
handkerchiefs | Taschentücher | mouchoirs | m pañuelos
buttons | Knöpfe | boutons | m botones
bracelets | Armbänder | bracelets | f pulseras
hammers | Hämmer | marteaux | m martillos
buckets | Eimer | seaux | m cubos
combs | Kämme | peignes | m peines
cushions | Kissen | coussins | m cojines
gloves | Handschuhe | gants | m guantes
eggs | Eier | œufs | m huevos
trees | Bäume | arbres | m árboles
"""

_ANIMALS = """
a fox | ein Fuchs | un renard | un zorro
a cat | eine Katze | un chat | un gato
a dog | ein Hund | un chien | un perro
a hare | ein Feldhase | un lièvre | una liebre
a hedgehog | ein Igel | un hérisson | un erizo
a squirrel | ein Eichhörnchen | un écureuil | una ardilla
an owl | eine Eule | une chouette | una lechuza
a duck | eine Ente | un canard | un pato
a goose | eine Gans | une oie | una oca
a hen | ein Huhn | une poule | una gallina
a goat | eine Ziege | une chèvre | una cabra
a sheep | ein Schaf | un mouton | una oveja
a horse | ein Pferd | un cheval | un caballo
a donkey | ein Esel | un âne | un burro
a mouse | eine Maus | une souris | un ratón
a raven | ein Rabe | un corbeau | un cuervo
a stork | ein Storch | une cigogne | una cigüeña
a badger | ein Dachs | un blaireau | un tejón
a pigeon | eine Taube | un pigeon | una paloma
a frog | ein Frosch | une grenouille | una rana
a pony | ein Pony | un poney | un poni
a rabbit | ein Kaninchen | un lapin | un conejo
a tortoise | eine Schildkröte | une tortue | una tortuga
a swan | ein Schwan | un cygne | un cisne
"""

_TIMES = """
on Monday | am Montag | lundi | el lunes
on Tuesday | am Dienstag | mardi | el martes
on Wednesday | am Mittwoch | mercredi | el miércoles
on Thursday | am Donnerstag | jeudi | el jueves
on Friday | am Freitag | vendredi | el viernes
on Saturday | am Samstag | samedi | el sábado
on Sunday | am Sonntag | dimanche | el domingo
in January | im Januar | en janvier | en enero
in February | im Februar | en février | en febrero
in March | im März | en mars | en marzo
in April | im April | en avril | en abril
in May | im Mai | en mai | en mayo
in June | im Juni | en juin | en junio
in July | im Juli | en juillet | en julio
in August | im August | en août | en agosto
in September | im September | en septembre | en septiembre
in October | im Oktober | en octobre | en octubre
in November | im November | en novembre | en noviembre
in December | im Dezember | en décembre | en diciembre
in spring | im Frühling | au printemps | en primavera
in summer | im Sommer | en été | en verano
in autumn | im Herbst | en automne | en otoño
in winter | im Winter | en hiver | en invierno
at Christmas | an Weihnachten | à Noël | en Navidad
"""

# Whole clauses.
_WEATHER = """
it was raining | es regnete | il pleuvait | llovía
it was snowing | es schneite | il neigeait | nevaba
the sun was shining | die Sonne schien | le soleil brillait | brillaba el sol
the wind was blowing | der Wind wehte | le vent soufflait | soplaba el viento
it was very cold | es war sehr kalt | il faisait très froid | hacía mucho frío
it was very hot | es war sehr heiß | il faisait très chaud | hacía mucho calor
fog lay over the fields | Nebel lag über den Feldern | le brouillard couvrait les champs | \
la niebla cubría los campos
people heard thunder | man hörte Donner | on entendait le tonnerre | se oían truenos
it was getting dark | es wurde dunkel | la nuit tombait | anochecía
the bells were ringing | die Glocken läuteten | les cloches sonnaient | sonaban las campanas
the stars were bright | die Sterne leuchteten | les étoiles brillaient | brillaban las estrellas
the streets were empty | die Straßen waren leer | les rues étaient vides | \
las calles estaban vacías
"""

# Three to twenty, then tens. Spanish numbers ending in one would change before a noun: left out.
_NUMBERS = """
three | drei | trois | tres
four | vier | quatre | cuatro
five | fünf | cinq | cinco
six | sechs | six | seis
seven | sieben | sept | siete
eight | acht | huit | ocho
nine | neun | neuf | nueve
ten | zehn | dix | diez
eleven | elf | onze | once
twelve | zwölf | douze | doce
thirteen | dreizehn | treize | trece
fourteen | vierzehn | quatorze | catorce
fifteen | fünfzehn | quinze | quince
sixteen | sechzehn | seize | dieciséis
seventeen | siebzehn | dix-sept | diecisiete
eighteen | achtzehn | dix-huit | dieciocho
nineteen | neunzehn | dix-neuf | diecinueve
twenty | zwanzig | vingt | veinte
thirty | dreißig | trente | treinta
forty | vierzig | quarante | cuarenta
fifty | fünfzig | cinquante | cincuenta
sixty | sechzig | soixante | sesenta
seventy | siebzig | soixante-dix | setenta
eighty | achtzig | quatre-vingts | ochenta
"""


def table(text: str) -> tuple[tuple[str, ...], ...]:
    """Rows of cells. Example: 'a cat | eine Katze | un chat | un gato' -> the four phrases."""
    rows = (line.split('|') for line in text.strip().splitlines())
    return tuple(tuple(cell.strip() for cell in row) for row in rows)


WOMEN, MEN, TOWNS = (tuple(text.split()) for text in (_WOMEN, _MEN, _TOWNS))
NAMES = (*WOMEN, *MEN)
OBJECTS, JOBS, THINGS, ANIMALS, TIMES, WEATHER, NUMBERS = (
    table(text) for text in (_OBJECTS, _JOBS, _THINGS, _ANIMALS, _TIMES, _WEATHER, _NUMBERS)
)

_VOWELS = 'aeiouyéèêâîôœ'


def english_article(phrase: str) -> str:
    """'old clock' -> 'an old clock'."""
    return ('an ' if phrase[0] in 'aeio' else 'a ') + phrase


def french_article(gender: str, phrase: str) -> str:
    """('f', 'écharpe chaude') -> "l'écharpe chaude"."""
    if phrase[0] in _VOWELS:
        return "l'" + phrase
    return ('la ' if gender == 'f' else 'le ') + phrase


def french_of(noun: str) -> str:
    """'œufs' -> "d'œufs"; 'livres' -> 'de livres'."""
    return ("d'" if noun[0] in _VOWELS else 'de ') + noun


def object_forms(lang: str, index: int) -> tuple[str, str, str]:
    """An object as direct object: with 'a', with 'the', and as a headline has it.

    Example: 'm schwarz Hut' -> 'einen schwarzen Hut', 'den schwarzen Hut', 'schwarzen Hut'.
    """
    cell = OBJECTS[index][LANGUAGES.index(lang)]
    if lang == 'en':
        return english_article(cell), f'the {cell}', cell
    if lang == 'de':
        gender, stem, noun = cell.split()
        strong = {'m': 'en', 'f': 'e', 'n': 'es'}[gender]
        weak = {'m': 'en', 'f': 'e', 'n': 'e'}[gender]
        a = {'m': 'einen', 'f': 'eine', 'n': 'ein'}[gender]
        the = {'m': 'den', 'f': 'die', 'n': 'das'}[gender]
        bare = f'{stem}{strong} {noun}'
        return f'{a} {bare}', f'{the} {stem}{weak} {noun}', bare
    gender, phrase = cell.split(maxsplit=1)
    if lang == 'fr':
        a = ('une ' if gender == 'f' else 'un ') + phrase
        return a, french_article(gender, phrase), a
    a = ('una ' if gender == 'f' else 'un ') + phrase
    return a, ('la ' if gender == 'f' else 'el ') + phrase, a


def job_forms(lang: str, index: int, woman: bool) -> tuple[str, str]:
    """A job as subject: with 'the', and as a headline has it.

    Example: 'engineer' -> "l'ingénieure", 'ingénieure' for a woman in French.
    """
    job = JOBS[index][LANGUAGES.index(lang)].split(', ')[-1 if woman else 0]
    if lang == 'en':
        return f'the {job}', job
    if lang == 'de':
        return ('die ' if woman else 'der ') + job, job
    if lang == 'fr':
        return french_article('f' if woman else 'm', job), job
    return ('la ' if woman else 'el ') + job, job


def sample(rng: random.Random) -> dict[str, int]:
    """The meanings of one example, as row numbers; a key with 2 is another one of the kind.

    Every task draws all of them, so that the tasks differ in their sentences only.
    """
    name, name2 = rng.sample(range(len(NAMES)), 2)
    town, town2 = rng.sample(range(len(TOWNS)), 2)
    thing, thing2 = rng.sample(range(len(OBJECTS)), 2)
    job, job2 = rng.sample(range(len(JOBS)), 2)
    return {
        'name': name,
        'name2': name2,
        'town': town,
        'town2': town2,
        'object': thing,
        'object2': thing2,
        'job': job,
        'job2': job2,
        'woman2': rng.randrange(2),
        'things': rng.randrange(len(THINGS)),
        'animal': rng.randrange(len(ANIMALS)),
        'time': rng.randrange(len(TIMES)),
        'weather': rng.randrange(len(WEATHER)),
        'number': rng.randrange(len(NUMBERS)),
    }


def forms(lang: str, meanings: dict[str, int]) -> dict[str, str]:
    """What templates are filled with: the meanings in one language."""
    column = LANGUAGES.index(lang)
    filled = {key: NAMES[meanings[key]] for key in ('name', 'name2')}
    filled |= {key: TOWNS[meanings[key]] for key in ('town', 'town2')}
    for key, rows in (
        ('animal', ANIMALS),
        ('time', TIMES),
        ('weather', WEATHER),
        ('number', NUMBERS),
        ('things', THINGS),
    ):
        filled[key] = rows[meanings[key]][column]
    filled['things'] = filled['things'].split()[-1]  # Without the gender that Spanish rows have.
    filled['a_object'], filled['the_object'], filled['headline_object'] = object_forms(
        lang, meanings['object']
    )
    filled['a_object2'] = object_forms(lang, meanings['object2'])[0]
    women = len(WOMEN)
    filled['the_job'], filled['job'] = job_forms(lang, meanings['job'], meanings['name'] < women)
    # As object: Spanish puts 'a' before a person, and joins it with 'el'.
    to_job = 'a ' + filled['the_job'] if lang == 'es' else filled['the_job']
    filled['to_the_job'] = to_job.replace('a el ', 'al ')
    filled['the_job2'], _ = job_forms(lang, meanings['job2'], bool(meanings['woman2']))
    return filled


def sentence(template: str, filled: dict[str, str]) -> str:
    """A filled template that starts with a capital letter, also after an inverted mark."""
    text = template.format_map(filled)
    start = 1 if text.startswith('¿') else 0
    return text[:start] + text[start].upper() + text[start + 1 :]
