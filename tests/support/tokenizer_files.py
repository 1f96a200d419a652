"""Made-up multilingual text, and small vocabularies of every family in their ordinary files."""

import functools
import importlib.util
import io
import json
import pathlib

import mtg_files
import sentencepiece
import tokenizers

# A sentence or two in every language of MRS, MTG, ClidSum and XTREME.
_SENTENCES = """
af Die ou brug oor die rivier is vanoggend weer oopgemaak. Môre reën dit dalk nie.
ar أُعيد فتحُ الجسر القديم صباح اليوم، وعبره الناس سيرًا على الأقدام. هل ستمطر غدًا؟
bg Старият мост над реката беше отворен отново тази сутрин. Хората се прибират пеша.
bn পুরোনো সেতুটি আজ সকালে আবার খুলে দেওয়া হয়েছে। মানুষ হেঁটে বাড়ি ফিরছে।
de Die alte Brücke über den Fluß wurde heute früh wieder geöffnet; „schön“, sagte Frau Müller.
el Η παλιά γέφυρα πάνω από το ποτάμι άνοιξε ξανά σήμερα το πρωί. Θα βρέξει αύριο;
en The old bridge over the river reopened this morning, and people don't mind walking 3.5 km.
es El viejo puente sobre el río reabrió esta mañana. ¿Lloverá mañana? ¡Ojalá que no, señor!
et Vana sild üle jõe avati täna hommikul uuesti. Inimesed lähevad jala koju.
eu Ibai gaineko zubi zaharra gaur goizean ireki dute berriro. Jendea oinez doa etxera.
fa پل قدیمی روی رودخانه امروز صبح دوباره باز شد. مردم پیاده به خانه می‌روند.
fi Joen yli kulkeva vanha silta avattiin tänä aamuna uudelleen. Ihmiset kävelevät kotiin.
fr Le vieux pont a rouvert ce matin : « c'est l'été », dit-on, où qu'on aille à Noël, naïf.
he הגשר הישן מעל הנהר נפתח מחדש הבוקר. אנשים הולכים הביתה ברגל; שָׁלוֹם.
hi नदी पर बना पुराना पुल आज सुबह फिर से खोला गया। लोग पैदल घर जा रहे हैं।
hu A folyó fölötti régi híd ma reggel újra megnyílt. Az emberek gyalog mennek haza.
id Jembatan tua di atas sungai dibuka kembali pagi ini. Orang-orang pulang berjalan kaki.
it Il vecchio ponte sul fiume ha riaperto stamattina. Perché la città è così tranquilla?
ja 川に架かる古い橋が今朝また開通しました。ガラスのコーヒーカップを持って、人々は歩いて帰ります。
jv Kreteg lawas ing sadhuwuré kali dibukak manèh esuk iki. Wong-wong mulih mlaku.
ka მდინარეზე ძველი ხიდი დღეს დილით ხელახლა გაიხსნა. ხალხი ფეხით მიდის სახლში.
kk Өзен үстіндегі ескі көпір бүгін таңертең қайта ашылды. Адамдар үйлеріне жаяу барады.
ko 강 위의 오래된 다리가 오늘 아침 다시 열렸습니다. 사람들은 걸어서 집에 갑니다.
ml നദിക്കു കുറുകെയുള്ള പഴയ പാലം ഇന്ന് രാവിലെ വീണ്ടും തുറന്നു. ആളുകൾ നടന്നു വീട്ടിലേക്കു പോകുന്നു.
mr नदीवरचा जुना पूल आज सकाळी पुन्हा उघडला. लोक चालत घरी जात आहेत.
ms Jambatan lama di atas sungai itu dibuka semula pagi ini. Orang ramai berjalan kaki pulang.
my မြစ်ပေါ်က တံတားဟောင်းကို ဒီမနက် ပြန်ဖွင့်ခဲ့တယ်။ လူတွေ လမ်းလျှောက်ပြီး အိမ်ပြန်ကြတယ်။
nl De oude brug over de rivier is vanochtend weer geopend. Mensen lopen naar huis; één café.
pt A velha ponte sobre o rio reabriu esta manhã. As pessoas não vão à estação de comboio.
ru Старый мост через реку сегодня утром снова открыли. Всё ещё идёт дождь, и люди идут домой.
sv Den gamla bron över ån öppnades igen i morse. Människor går hem till fots på kvällen.
sw Daraja la zamani juu ya mto limefunguliwa tena asubuhi ya leo. Watu wanatembea kwenda nyumbani.
ta ஆற்றின் மீதுள்ள பழைய பாலம் இன்று காலை மீண்டும் திறக்கப்பட்டது. மக்கள் நடந்து வீடு செல்கிறார்கள்.
te నదిపై ఉన్న పాత వంతెన ఈ ఉదయం మళ్ళీ తెరిచారు. ప్రజలు నడిచి ఇంటికి వెళుతున్నారు.
th สะพานเก่าข้ามแม่น้ำเปิดอีกครั้งเมื่อเช้านี้ ผู้คนเดินกลับบ้าน น้ำใสมาก
tl Muling binuksan ngayong umaga ang lumang tulay sa ibabaw ng ilog. Naglalakad pauwi ang mga tao.
tr Irmağın üstündeki eski köprü bu sabah yeniden açıldı. İnsanlar yürüyerek eve, IĞDIR'a gidiyor.
ur دریا پر بنا پرانا پل آج صبح دوبارہ کھول دیا گیا۔ لوگ پیدل گھر جا رہے ہیں۔
vi Cây cầu cũ bắc qua sông đã được mở lại sáng nay. Mọi người đi bộ về nhà.
yo Afárá àtijọ́ tó wà lórí odò ni wọ́n tún ṣí ní òwúrọ̀ yìí. Àwọn ènìyàn ń rìn lọ sílé.
zh 河上的老桥今天早上重新开放了。人们步行回家，明天也许会下雨；舊橋很長。
"""
SENTENCES = dict(line.split(' ', 1) for line in _SENTENCES.strip().splitlines())

# What tokenisers stumble over. Every text is encoded alone and inside a sentence.
HARD = (
    '',
    ' ',
    '   \t \n ',
    ' leading and trailing  ',
    'two  spaces   three',
    'tab\there\nnew line\r\nand more',
    'no\u00a0break\u2009thin\u3000ideographic\u202fnarrow\u1680ogham\u2028line\u0085next',
    'zero\u200bwidth\u200cnon\u200djoiner\ufeffbom\u00adsoft\u2060word',
    '\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 family',
    '\U0001f469\U0001f3fd\u200d\U0001f680 \U0001f3f3\ufe0f\u200d\U0001f308 \u2764\ufe0f',
    'flag \U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7',
    'keycap 1\ufe0f\u20e3 and \U0001f600\U0001f600\U0001f600',
    'control \x00\x01\x07\x08\x0b\x0c\x1b\x7f\x80\x9f end',
    'ｆｕｌｌ－ｗｉｄｔｈ　ＴＥＸＴ １２３！ ﾊﾝｶｸ ｶﾞ',
    'e\u0301 a\u0308 n\u0303 o\u0302\u0323 \u1e69 s\u0323\u0307 Z\u0351\u036b\u0343\u036aalgo',
    'ﬁ ﬂ ﬀ Ǆ ½ ² ™ ㎏ № ℃ … ﷺ Å Å Ω Ω',
    'ำ นำ้ กำ க்ஷ ക്ഷ क्ष্ যক্ষ ແລ້ວ 각 각',
    '\u05e9\u05c1\u05b8\u05dc \u0644\u0627 \ufefb \u0640\u0640 \u202bbidi\u202c \u200fmark',
    'Straße STRASSE İstanbul ıI ſ ǅ Σίσυφος ΣΙΣΥΦΟΣ',
    '0123456789 1,234.56 ٠١٢٣ ०१२३ 一二三 3٫5 1e-10 192.168.0.1',
    "don't can't we'll I'M \u2019s 'tis ``quoted'' -- --- a.b.c e.g. U.S.A.",
    'http://example.org/a_b?c=d&e=%20#f user@example.org C++ C# @name #tag',
    '!?.,;:()[]{}<>«»„“”‘’—–-_=+*/\\|~`^$%&@#',
    'a' * 250,
    'Donaudampfschifffahrtsgesellschaftskapitän' * 8,
    '橋' * 130,
    'ก' * 120 + 'ำ' * 3,
    '\u2581 lower \u2581one eighth▁block▁▁',
    '##ing ##a # # @@ a@@ Ġword Ċ Ã©',
    '𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𐍈 𠜎𠜱 𒀀 \U000e0041 \ue000 \ufffd \uffff',
    '\u0301\u0302 alone',
    'a\u0300' * 40,
)
SPECIAL = (
    '</s>', '<s> inside </s> a <pad> sentence <unk> and <mask>.', 'joined</s>without<pad>spaces',
    '[CLS] x [SEP] y [PAD] [UNK] [MASK] [unused3] [cls]', '<de> die Brücke <answer> Fluss',
    '[summarize] the old bridge', 'a[summarize]b',
    '<extra_id_0> bridge <extra_id_99><extra_id_100>', 'de_DE en_XX xx_XX zh_CN text',
    'deu_Latn __de__ __br__ text', '>>deu<< die Brücke >>fra<< le pont', '>>xyz<< bridge', '>>deu',
    '<mask_1> <mask_2> <unk_2> <unk_103>',
)  # fmt: skip
TEXTS = (
    *SENTENCES.values(),
    *HARD,
    *(f'The old {text} bridge' for text in HARD),
    *SPECIAL,
    *(f'The old {text} bridge' for text in SPECIAL),
)

# How each family's public vocabulary orders its special pieces, and what its models are called.
_PIECES = {
    't5': dict(pad_id=0, eos_id=1, unk_id=2, bos_id=-1),
    'pegasus': dict(pad_id=0, eos_id=1, unk_id=2, bos_id=-1),
    'deberta': dict(
        pad_id=0, bos_id=1, eos_id=2, unk_id=3, pad_piece='[PAD]', bos_piece='[CLS]',
        eos_piece='[SEP]', unk_piece='[UNK]',
    ),
    'fairseq': dict(unk_id=0, bos_id=1, eos_id=2, pad_id=-1),
}


@functools.lru_cache(maxsize=32)
def sentencepiece_model(
    kind: str,
    normalizer: str = 'nmt_nfkc',
    langs: tuple[str, ...] = (),
    size: int = 900,
    byte_fallback: bool = False,
    symbols: tuple[str, ...] = (),
    model_type: str = 'unigram',
) -> bytes:
    """A model trained on the sentences of some languages (default: all)."""
    lines = [SENTENCES[lang] for lang in langs or SENTENCES]
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines * 3),
        model_writer=model,
        model_type=model_type,
        vocab_size=size,
        hard_vocab_limit=model_type == 'bpe',
        normalization_rule_name=normalizer,
        byte_fallback=byte_fallback,
        user_defined_symbols=list(symbols),
        character_coverage=0.98,  # So that there is unknown text.
        num_threads=1,
        minloglevel=2,
        **_PIECES[kind],
    )
    return model.getvalue()


def _wordpiece(lowercase: bool) -> list[str]:
    trainer = tokenizers.trainers.WordPieceTrainer(
        vocab_size=2500,
        special_tokens=[
            '[PAD]', *(f'[unused{i}]' for i in range(1, 100)), '[UNK]', '[CLS]', '[SEP]', '[MASK]'
        ],
        limit_alphabet=600,
    )  # fmt: skip
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordPiece(unk_token='[UNK]'))
    tokenizer.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    tokenizer.train_from_iterator(SENTENCES.values(), trainer)
    return sorted(tokenizer.get_vocab(), key=tokenizer.token_to_id)


def _write_byte_bpe(folder: pathlib.Path, first: tuple[str, ...], last: str) -> None:
    """vocab.json and merges.txt, with special tokens before and behind the pieces."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=900,
        special_tokens=list(first),
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator([f' {text}' for text in SENTENCES.values()], trainer)
    tokenizer.add_special_tokens([last])
    model = json.loads(tokenizer.to_str())['model']
    vocab = model['vocab'] | {last: len(model['vocab'])}
    (folder / 'vocab.json').write_text(json.dumps(vocab, ensure_ascii=False))
    merges = [pair if isinstance(pair, str) else ' '.join(pair) for pair in model['merges']]
    (folder / 'merges.txt').write_text('\n'.join(['#version: 0.2', *merges]) + '\n')


def _write_xlm(folder: pathlib.Path) -> None:
    """vocab.json and merges.txt, whose lines end with a count, and some of which are in vain."""
    special = ('<s>', '</s>', '<pad>', '<unk>', *(f'<special{i}>' for i in range(10)))
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.normalizer = tokenizers.normalizers.Sequence(
        [tokenizers.normalizers.NFD(), tokenizers.normalizers.StripAccents(),
         tokenizers.normalizers.Lowercase()]
    )  # fmt: skip
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=1500, special_tokens=list(special), end_of_word_suffix='</w>'
    )
    tokenizer.train_from_iterator(SENTENCES.values(), trainer)
    model = json.loads(tokenizer.to_str())['model']
    pairs = [pair if isinstance(pair, list) else pair.split(' ') for pair in model['merges']]
    lost = {a + b for a, b in pairs[50::60]}  # As where a vocabulary was cut after it was learnt.
    kept = [piece for piece in sorted(model['vocab'], key=model['vocab'].get) if piece not in lost]
    vocab = {piece: i for i, piece in enumerate(kept)}
    (folder / 'vocab.json').write_text(json.dumps(vocab, ensure_ascii=False))
    lines = [f'{a} {b} {len(pairs) - i}' for i, (a, b) in enumerate(pairs)]
    (folder / 'merges.txt').write_text('\n'.join(lines) + '\n')


def _write_marian(folder: pathlib.Path, codes: tuple[str, ...], normalizer: str) -> None:
    """Two models and the ids of both their pieces; target pieces alone are in the file, too."""
    pieces: dict[str, None] = {}
    for name, langs in (('source', ('en', 'fr')), ('target', ('de', 'ru', 'es'))):
        data = sentencepiece_model('fairseq', normalizer, langs, size=160)
        (folder / f'{name}.spm').write_bytes(data)
        processor = sentencepiece.SentencePieceProcessor(model_proto=data)
        pieces |= dict.fromkeys(processor.id_to_piece(i) for i in range(3, len(processor)))
    tokens = ['</s>', '<unk>', *(f'>>{code}<<' for code in codes), *sorted(pieces), '<pad>']
    vocab = {token: i for i, token in enumerate(tokens)}
    (folder / 'vocab.json').write_text(json.dumps(vocab, ensure_ascii=False))


def _write_m2m(folder: pathlib.Path, normalizer: str) -> None:
    """A model and the ids of its pieces, which another order than its own gives them."""
    data = sentencepiece_model('fairseq', normalizer, model_type='bpe')
    (folder / 'sentencepiece.bpe.model').write_bytes(data)
    processor = sentencepiece.SentencePieceProcessor(model_proto=data)
    pieces = sorted(processor.id_to_piece(i) for i in range(3, len(processor)))
    vocab = {token: i for i, token in enumerate(['<s>', '<pad>', '</s>', '<unk>', *pieces])}
    (folder / 'vocab.json').write_text(json.dumps(vocab, ensure_ascii=False))


_PIECES_OF_BPE = 'sentencepiece.bpe.model', {'kind': 'fairseq'}
# Model type, class of the tokenizer, and the SentencePiece model: its file, and how it is trained.
_FAMILIES: dict[str, tuple] = {
    't5': (
        't5', 'T5Tokenizer', 'spiece.model', {'kind': 't5', 'symbols': ('<de>', '<answer>')}
    ),
    'mt5': (
        'mt5', 'T5Tokenizer', 'spiece.model', {'kind': 't5', 'byte_fallback': True, 'size': 1200}
    ),
    'pegasus': ('pegasus', 'PegasusTokenizer', 'spiece.model', {'kind': 'pegasus'}),
    'mbart25': ('mbart', 'MBartTokenizer', *_PIECES_OF_BPE),
    'mbart50': ('mbart', 'MBart50Tokenizer', *_PIECES_OF_BPE),
    'xlm-roberta': ('xlm-roberta', 'XLMRobertaTokenizer', *_PIECES_OF_BPE),
    'unicoder': ('bart', 'XLMRobertaTokenizer', *_PIECES_OF_BPE),
    'deberta-v2': ('deberta-v2', 'DebertaV2Tokenizer', 'spm.model', {'kind': 'deberta'}),
    'nllb': (
        'm2m_100', 'NllbTokenizer', 'sentencepiece.bpe.model',
        {'kind': 'fairseq', 'model_type': 'bpe'},
    ),
    'bert-cased': ('bert', 'BertTokenizer'),
    'bert-uncased': ('bert', 'BertTokenizer'),
    'bart': ('bart', 'BartTokenizer'),
    'roberta': ('roberta', 'RobertaTokenizer'),
    'gpt2': ('gpt2', 'GPT2Tokenizer'),
    'xlm': ('xlm', 'XLMTokenizer'),
    'marian': ('marian', 'MarianTokenizer'),
    'marian-multilingual': ('marian', 'MarianTokenizer'),
    'm2m_100': ('m2m_100', 'M2M100Tokenizer'),
}  # fmt: skip
_LISTED = [*(f'{code}_Latn' for code in ('ace', 'deu', 'eng', 'fra')), 'rus_Cyrl', 'zho_Hans']
# What tokenizer_config.json says besides.
_OPTIONS = {
    'mt5': {'extra_ids': 0}, 'unicoder': {'xlbench_family': 'unicoder'},
    'nllb': {'additional_special_tokens': _LISTED}, 'm2m_100': {'tgt_lang': 'de'},
}  # fmt: skip


def write(folder, family: str, normalizer: str = 'nmt_nfkc', config=None, **files) -> str:
    """Writes the ordinary files of one of _FAMILIES, and further JSON files: `added_tokens={...}`.

    `config` is the content of tokenizer_config.json beside the class."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    model_type, tokenizer_class, *model = _FAMILIES[family]
    options: dict = {'tokenizer_class': tokenizer_class}
    if model:
        file, settings = model
        (folder / file).write_bytes(sentencepiece_model(normalizer=normalizer, **settings))
    options |= _OPTIONS.get(family, {})
    if family == 'm2m_100':
        _write_m2m(folder, normalizer)
    elif model_type == 'bert':
        options['do_lower_case'] = family == 'bert-uncased'
        (folder / 'vocab.txt').write_text('\n'.join(_wordpiece(options['do_lower_case'])) + '\n')
    elif model_type == 'marian':
        codes = ('deu', 'fra', 'cmn_Hans', 'es') if family == 'marian-multilingual' else ()
        _write_marian(folder, codes, normalizer)
        options |= {'source_lang': 'eng', 'target_lang': 'mul'}
    elif family == 'xlm':
        _write_xlm(folder)
    elif family == 'gpt2':
        _write_byte_bpe(folder, (), '<|endoftext|>')
    elif not model:
        _write_byte_bpe(folder, ('<s>', '<pad>', '</s>', '<unk>'), '<mask>')
    files = {
        'config': {'model_type': model_type}, 'tokenizer_config': options | (config or {}), **files,
    }  # fmt: skip
    for name, content in files.items():
        (folder / f'{name}.json').write_text(json.dumps(content, ensure_ascii=False))
    return str(folder)


FAMILIES = (
    't5', 'mt5', 'pegasus', 'mbart25', 'mbart50', 'xlm-roberta', 'bert-cased', 'bert-uncased',
    'bart', 'roberta', 'gpt2', 'marian', 'marian-multilingual', 'm2m_100', 'nllb',
    'deberta-v2',
    *(('xlm',) if importlib.util.find_spec('sacremoses') else ()),
)  # fmt: skip


def write_hugging_face(folder, config=None, **special):
    """A tokenizer.json of no known family, with its configuration files."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token='<unk>', byte_fallback=False))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    tokenizer.decoder = tokenizers.decoders.Metaspace()
    lines = [mtg_files.sentence(lang, i, 12) for lang in ('en', 'de') for i in range(60)]
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=150, special_tokens=['<s>', '<pad>', '</s>', '<unk>', '<de>']
    )
    tokenizer.train_from_iterator(lines, trainer)
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single='<s> $A </s>', special_tokens=[('<s>', 0), ('</s>', 2)]
    )
    tokenizer.enable_truncation(4)
    folder.mkdir(exist_ok=True)
    tokenizer.save(str(folder / 'tokenizer.json'))
    special = {'pad_token': '<pad>', 'eos_token': {'content': '</s>', 'lstrip': False}} | special
    (folder / 'special_tokens_map.json').write_text(json.dumps(special))
    (folder / 'config.json').write_text(json.dumps(config or {}))
    return folder
