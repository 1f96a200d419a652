"""Regressors are scikit-learn's; the best one for held-out ratings is kept, and fitted again."""

import contextlib
import io
import json

import judging
import msgspec
import numpy as np
import pytest

from xlbench import annotate, metrics, score
from xlbench.metrics import fitted_rating
from xlbench.reporting.statistics import correlation
from xlbench.system.errors import UserError


def test_regressors_equal_the_reference(golden):
    """Of trees with tied splits the recorded versions differ; either is right."""
    for case in golden('ensemble/'):
        inputs, expected = case['inputs'], case['expected']
        x, y, x_test = (np.array(inputs[name]) for name in ('X_train', 'y_train', 'X_test'))
        for name in fitted_rating.REGRESSORS:
            short = name.removesuffix('Regression')
            if short not in expected:
                continue
            model = fitted_rating.fitted(name, x, y, inputs.get('random_state', 0))
            predicted = model.predict(x_test)
            same = [
                np.allclose(predicted, values, rtol=1e-9, atol=1e-12)
                for key, values in expected[short].items()
                if key.startswith('predictions')
            ]
            assert any(same), (case['name'], name)
        for i, name in enumerate(inputs['features']):
            pearson = correlation(x_test[:, i], inputs['y_test']).pearson
            assert pearson == pytest.approx(expected['pearson_of_single_features'][name])


def rated(tmp_path, count=40):
    """Texts whose rating goes up with the words that they share with the reference."""
    rng = np.random.default_rng(1)
    lines = []
    for i in range(count):
        words = rng.choice(judging.WORDS, 8, replace=False).tolist()
        for system, keep in (('a', 0.9), ('b', 0.4)):
            text = ' '.join(word for word in words if rng.random() < keep)
            rating = 1 + 4 * len(text.split()) / 8
            lines.append({
                'study': 'Fragen', 'task': 'news_qg_de', 'id': str(i), 'lang': 'de',
                'system': system, 'references': [' '.join(words)], 'prediction': text,
                'ratings': {'Grammar': rating, 'Fluency': float(rng.integers(1, 6))},
            })  # fmt: skip
    path = tmp_path / 'ratings.jsonl'
    path.write_text(''.join(json.dumps(line) + '\n' for line in lines))
    return path


@pytest.fixture(scope='module')
def fitted(tmp_path_factory):
    """(the file of a fitted rating, what was said)"""
    folder, said = tmp_path_factory.mktemp('fitted'), io.StringIO()
    flags = [str(rated(folder)), f'--output={folder}/rating.json', '--target=Grammar']
    with contextlib.redirect_stdout(said):
        assert annotate.main(['annotate', 'fit', *flags]) == 0
    return folder / 'rating.json', said.getvalue()


def test_a_rating_is_fitted_and_scores(fitted, tmp_path, capsys):
    file, said = fitted
    for words in ('GradientBoosting', '48 texts fit, 16 choose and 16 test', 'spearman', 'bleu'):
        assert words in said
    fit = fitted_rating.load(str(file))
    assert fit.pearson['choose'] > 0.95 and fit.pearson['test'] > 0.9
    assert fit.fitted_on == 'Fragen: 80 texts of 40 examples, news_qg_de'
    metric = metrics.FittedRating(str(file), 'de')
    reference = ' '.join(judging.WORDS[:8])
    scores = metric.per_example([reference] * 2, [reference, 'Zug'])
    assert scores[0]['fitted_rating'] > 4 > 2.5 > scores[1]['fitted_rating']
    assert 'fitted_on:Fragen: 80 texts' in metric.signature and 'ensemble' not in metric.signature
    assert metric.several_references and metric.missing() == []
    needy = msgspec.structs.replace(fit, metrics=['bertscore', 'mrs_rouge'])
    (tmp_path / 'needy.json').write_bytes(fitted_rating.encode(needy))
    other = metrics.FittedRating(str(tmp_path / 'needy.json'), 'de')
    assert not other.several_references
    assert 'hf download' in ''.join(other.missing()) or not other.missing()
    answers = tmp_path / 'answers.txt'
    answers.write_text(f'{reference}\nZug\n')
    references = tmp_path / 'references.txt'
    references.write_text(f'{reference}\n{reference}\n')
    flags = [f'--references={references}', '--lang=de', f'--metrics=chrf,fitted_rating={file}']
    workdir = tmp_path / 'other'
    score.main([str(answers), *flags, f'--workdir={workdir}'])
    said = capsys.readouterr().out
    mean = np.mean([row['fitted_rating'] for row in scores])
    assert f'fitted_rating            {mean:.2f}' in said and 'fitted_on:Fragen' in said
    (result,) = workdir.rglob('metrics.json')
    assert json.loads(result.read_text())['scores']['fitted_rating'] == pytest.approx(mean)


def test_wrong_ratings_and_files_end_in_one_line(fitted, tmp_path):
    path, file = rated(tmp_path), tmp_path / 'rating.json'
    with pytest.raises(UserError, match='rated for Grammar, Fluency, mean'):
        annotate.main(['annotate', 'fit', str(path), f'--output={file}', '--target=Tone'])
    lines = path.read_text().splitlines(keepends=True)
    for text, message in (
        (''.join(lines[:6]), 'are too few'),
        ('{"task": 1}\n', 'Expected `str`'),
        (lines[0][:50], 'ratings.jsonl:1'),
        (lines[0].replace('"de"', '""'), 'set --lang'),
        (lines[0] + lines[1].replace('Grammar', 'Tone'), 'other aspects'),
    ):
        path.write_text(text)
        with pytest.raises(UserError, match=message):
            annotate.main(['annotate', 'fit', str(path), f'--output={file}'])
    path.write_text(''.join(lines))
    file.write_text('{"mine": 1}')
    with pytest.raises(UserError, match='exists and is not a fitted rating'):
        annotate.main(['annotate', 'fit', str(path), f'--output={file}'])
    assert file.read_text() == '{"mine": 1}'
    whole = json.loads(fitted[0].read_text())
    wrong = tmp_path / 'wrong.json'
    for change, message in (
        ({'format': 'x'}, 'is not a fitted rating'),
        ({'features': ['bleu']}, 'do not fit its 1 features'),
        ({'y': whole['y'][1:]}, 'do not fit'),
        ({'regressor': 'os.system'}, 'unknown regressor of'),
        ({'x': []}, 'length >= 1'),
    ):
        wrong.write_text(json.dumps(whole | change))
        with pytest.raises(UserError, match=message):
            fitted_rating.load(str(wrong))
