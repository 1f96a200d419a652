"""What judges send back, and what is made of it, while one of the files is harmed."""

import json

import judging
import numpy as np

from xlbench.judgement import answers, fitting, scores, studies
from xlbench.metrics import fitted_rating

from . import cases


def test_answers_and_keys(tmp_path):
    for kind in ('ratings', 'best_worst'):
        study = judging.study(kind, systems=3)
        key, sent = tmp_path / 'key.json', tmp_path / 'answers.json'

        def choose(systems, aspect, index, kind=kind):
            return 1 + (index + len(aspect)) % 5 if kind == 'ratings' else systems[:2]

        file = json.dumps(judging.answers(study, 'anna', choose)).encode()
        whole = answers.read([judging.write(tmp_path, 'whole.json', json.loads(file))], study)
        for case in cases.each(f'answers, {kind}', 40):
            case.harm_file(sent, file)
            with case.run():
                judged = answers.read([str(sent)], study)
                scores.tables(study, judged)
            # The checksum lets nothing pass that was not said.
            if case.accepted and (judged.ratings, judged.choices) != (whole.ratings, whole.choices):
                case.fail('other answers were accepted')
        for case in cases.each(f'key, {kind}', 40):
            case.harm_file(key, studies.encode(study))
            with case.run():
                changed = studies.read(str(key))
                judged = answers.read([str(tmp_path / 'whole.json')], changed)
                scores.tables(changed, judged)
                scores.rated_texts(changed, judged)


def test_ratings_and_regressors(tmp_path):
    lines = [
        {
            'task': 'news', 'id': str(i), 'lang': 'de', 'prediction': 'Zug ' * (i % 4 + 1),
            'references': ['Zug Zug Zug'], 'ratings': {'Tone': 1.0 + i % 4},
        }
        for i in range(20)
    ]  # fmt: skip
    rated, file = tmp_path / 'ratings.jsonl', tmp_path / 'rating.json'
    text = ''.join(json.dumps(line) + '\n' for line in lines)
    for case in cases.each('rated texts', 30):
        case.harm_file(rated, text.encode())
        with case.run():
            fitting.read([str(rated)], ['chrf'], 'de')
    whole = tmp_path / 'whole.jsonl'
    whole.write_text(text)
    data = fitting.read([str(whole)], ['chrf', 'distinct'], 'de')
    kept, _ = fitting.fit(data, 'Tone', ['chrf', 'distinct'], 0)
    names = [*fitted_rating.REGRESSORS]
    for case in cases.each('fitted ratings', 60):
        kept.regressor = names[case.seed % len(names)]
        case.harm_file(file, fitted_rating.encode(kept))
        fitted_rating.load.cache_clear()
        with case.run(), np.errstate(all='ignore'):
            fit = fitted_rating.load(str(file))
            fitted_rating._of_file.cache_clear()
            fitted_rating._of_file(str(file)).predict(np.zeros((3, len(fit.features))))
