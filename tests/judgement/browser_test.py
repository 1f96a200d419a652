"""Two judges play a study through in a real Chromium, and what it saved is scored."""

import json
import pathlib

import judging
from chromium import fits

from xlbench import annotate
from xlbench.judgement import answers, corrections, studies

PHONE, DESK = {'width': 390, 'height': 844}, {'width': 1280, 'height': 900}


def write(folder: pathlib.Path, study: studies.Study) -> None:
    for sheet in study.sheets:
        page = studies.document(study, sheet)
        (folder / studies.page_name(sheet)).write_text(page, encoding='utf-8')
    (folder / 'key.json').write_bytes(studies.encode(study))


def save(page, button: str, folder: pathlib.Path) -> pathlib.Path:
    with page.expect_download() as download:
        page.click(button)
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    return path


def test_without_a_script_nothing_is_offered_that_would_do_nothing(browser, tmp_path):
    study = judging.study()
    write(tmp_path, study)
    path = tmp_path / studies.page_name(study.sheets[0])
    for works in (False, True):
        page = browser.new_context(java_script_enabled=works).new_page()
        page.goto(path.as_uri())
        assert page.locator('#save').is_visible() is works
        assert page.locator('nav').is_visible() is works
        assert page.locator('noscript').is_visible() is not works


def test_two_judges_rate_a_study(open_page, tmp_path, capsys):
    """Anna types on a desk, Ben taps on a phone; they rate texts by their form."""
    study = judging.study()
    write(tmp_path, study)

    def good(text: str) -> bool:
        return text.endswith('?') and '<b>' not in text

    anna = open_page(tmp_path / 'anna.html', DESK)
    assert anna.locator('#guidelines').get_attribute('open') is not None
    anna.click('#start')
    for number in range(12):
        assert f'Item {number + 1} of 12' in anna.inner_text('#count')
        for text in anna.locator('.texts .text').all_inner_texts():
            for _ in range(3):
                anna.keyboard.press('5' if good(text) else '2')
        anna.keyboard.press('Enter')
    assert 'answered every item' in anna.inner_text('#item')
    files = [save(anna, '#save-all', tmp_path)]
    assert 'Thank you' in anna.inner_text('#result')

    ben = open_page(tmp_path / 'ben.html', PHONE)
    ben.click('#start')
    for _ in range(12):
        for card in ben.locator('.texts .card').all():
            value = 4 if good(card.locator('.text').inner_text()) else 1
            for row in card.locator('fieldset').all():
                row.locator('label').nth(value - 1).click()
        assert fits(ben)
        ben.click('#next')
    files.append(save(ben, '#save', tmp_path))

    texts = [str(path) for path in (tmp_path / 'key.json', *files)]
    assert annotate.main(['annotate', 'score', *texts, f'--output={tmp_path / "scores"}']) == 0
    said = capsys.readouterr().out
    judged = answers.read(texts[1:], study)
    assert not judged.notes and len(judged.ratings) == 12 * 2 * 3
    for (_, system, _), given in judged.ratings.items():
        assert given == ({'anna': 5, 'ben': 4} if system == 'system-0' else {'anna': 2, 'ben': 1})
    assert '4.50' in said and '1.50' in said and '3 of 3 differences are significant' in said
    rated = (tmp_path / 'scores' / 'ratings.jsonl').read_text().splitlines()
    assert len(rated) == 24 and json.loads(rated[0])['judges'] == 2


def test_a_judge_stops_and_goes_on(open_page, tmp_path):
    """Answers outlive the page; one text is never best and worst; a file brings them back."""
    study = judging.study('best_worst', systems=4, judges=['anna', 'ben'], langs=('de', 'ar'))
    write(tmp_path, study)
    page = open_page(tmp_path / 'anna.html', PHONE)
    page.click('#start')
    for texts, direction in (('.texts', 'rtl'), ('.source', 'ltr')):
        text = page.locator(f'{texts} .text').first
        assert text.evaluate('e => getComputedStyle(e).direction') == direction
    for key in ('1', '2', '3', '4', '1', '3'):
        page.keyboard.press(key)
    assert '1 answered' in page.inner_text('#count') and fits(page)
    # What was the worst becomes the best: the worst is open again.
    page.locator('fieldset').nth(0).locator('label').nth(1).click()
    assert '0 answered' in page.inner_text('#count')
    assert page.locator('fieldset').nth(1).locator('input:checked').count() == 0
    page.keyboard.press('Enter')  # Leads to what is open, not to the next item.
    assert 'Item 1 of 12' in page.inner_text('#count')
    page.keyboard.press('1')
    page.keyboard.press('Enter')
    assert 'Item 2 of 12' in page.inner_text('#count')
    page.keyboard.press('p')
    path = save(page, '#save', tmp_path)
    saved = json.loads(path.read_text())
    assert [answer['text'] for answer in saved['answers']] == ['B', 'A', 'C', 'D', 'A', 'C']

    page.reload()
    assert 'Item 1 of 12, 1 answered' in page.inner_text('#count')
    assert page.locator('#guidelines').get_attribute('open') is None

    other = open_page(tmp_path / 'anna.html', DESK)  # Another browser.
    other.click('#overview')
    assert '0 of 12 items' in other.inner_text('#item')
    for text, result in (
        ('no JSON', 'holds no answers'),
        ('{"page": "x"}', 'another page'),
        (path.read_text(), 'are here again'),
    ):
        other.set_input_files('input[type=file]', {
            'name': 'a.json', 'mimeType': 'application/json', 'buffer': text.encode(),
        })  # fmt: skip
        other.locator('#result', has_text=result).wait_for()
    assert '1 answered' in other.inner_text('#count')
    again = json.loads(save(other, '#save-all', tmp_path / 'again').read_text())
    assert again['answers'] == saved['answers']
    assert 'is not finished: 11 of 12 items' in answers.read([str(path)], study).notes[-1]


def test_texts_stay_texts(open_page, tmp_path):
    """HTML in texts, names and titles is shown and does nothing; a full browser says so."""
    attack = '</script><script>window.hurt = 1</script><img src=x onerror="window.hurt = 1">'
    study = judging.study(judges=[attack[:38]], title=attack)
    study.items[study.sheets[0].order[0]].texts['system-0'] = attack
    study.items[study.sheets[0].order[0]].input = 'wort ' * 400
    path = tmp_path / 'page.html'
    path.write_text(studies.document(study, study.sheets[0]), encoding='utf-8')
    page = open_page(path, PHONE)
    page.click('#start')
    assert attack in page.locator('.texts .text').all_inner_texts()
    assert page.inner_text('h1') == attack and page.evaluate('window.hurt') is None and fits(page)
    assert page.locator('.source .text').evaluate('e => e.scrollHeight > e.clientHeight')
    assert page.locator('#warning').is_hidden()
    page.evaluate("() => { Storage.prototype.setItem = () => { throw new Error('full') } }")
    page.keyboard.press('1')
    assert 'does not keep your answers' in page.inner_text('#warning')


def test_a_person_corrects_a_sheet(open_page, tmp_path):
    """Texts change, one example is left out; a reload and the saved file keep all of it."""
    sheet = corrections.Sheet(
        name='qg-ar-001', title='Correct it', source_lang='en', lang='ar', rules=('Be right.',),
        fields=('passage', 'question'), texts=tuple((f'P{i}', f'<b>Q{i}</b>') for i in range(3)),
        sources=tuple((f'Passage {i}', f'Question {i}?') for i in range(3)),
    )  # fmt: skip
    path = tmp_path / 'sheet.html'
    path.write_text(corrections.document(sheet), encoding='utf-8')
    page = open_page(path, PHONE)
    page.click('#start')
    areas = page.locator('textarea')
    assert areas.nth(1).input_value() == '<b>Q0</b>'
    assert areas.first.evaluate('e => getComputedStyle(e).direction') == 'rtl' and fits(page)
    areas.nth(0).fill('')
    page.click('#done')
    assert 'A text is empty' in page.inner_text('#hint')
    page.click('#undo')
    areas.nth(1).fill('  صحيح\n"now"')
    page.click('#done')
    assert 'Item 2 of 3, 1 finished' in page.inner_text('#count')
    page.click('#out')
    page.reload()
    page.wait_for_selector('textarea')
    assert 'Item 3 of 3, 2 finished' in page.inner_text('#count')
    half = corrections.read(str(save(page, '#save', tmp_path)))
    expected = {0: ('P0', 'صحيح "now"'), 1: None}
    assert half.texts == expected and half.sheet == sheet.id
    page.click('#done')
    assert 'finished every example' in page.inner_text('#item')
    whole = save(page, '#save-all', tmp_path)
    corrections.check(corrections.read(str(whole)), sheet)
    assert corrections.read(str(whole)).texts == {**expected, 2: ('P2', '<b>Q2</b>')}
    # In another browser the file brings all back.
    other = open_page(path, DESK)
    other.click('#overview')
    other.set_input_files('input[type=file]', whole)
    other.wait_for_function("document.querySelector('#result').textContent.includes('here again')")
    again = corrections.read(str(save(other, '#save-all', tmp_path)))
    assert again.texts == corrections.read(str(whole)).texts
