"""Steps as jobs of a cluster: arrays of SLURM, or JobSets of Kubernetes.

The jobs are those of the launchers in launch/, which keep logs and start a run again when it is
interrupted. Steps that need others are in a later file: every file is a level, whose jobs need
nothing but those of the files before it.
"""

import hashlib
import pathlib
import re
import shlex
from collections.abc import Callable, Mapping, Sequence

import xlbench
from xlbench.reproduce.steps import Step
from xlbench.system import errors, files
from xlbench.system.errors import UserError

_LAUNCH = pathlib.Path(xlbench.__file__).resolve().parents[1] / 'launch'
_NAME_LENGTH = 25  # Of a JobSet; see launch/gke_jobset.yaml.

# Of a level of either kind, and its steps.
_SLURM = """\
#!/usr/bin/env bash
# {title}.
{directives}
#SBATCH --array=0-{last}
case $SLURM_ARRAY_TASK_ID in
{steps}
esac
export XLBENCH_MODULE
source {launcher}
"""
_JOBSET = """\
# {title}. Apply a level when the JobSets of the one before are complete:
#   envsubst '$IMAGE $NODES $DEVICE $DEVICES $VOLUME $RESTARTS' < {path} | kubectl apply -f -
# launch/gke_jobset.yaml says what the variables are. At the end, this prints the table:
#   {again}
{steps}
"""
_SUBMIT = """\
#!/usr/bin/env bash
# Submits {title} to SLURM: {count} jobs in {levels} arrays, each of which waits for the one before.
# From the project's folder; what is given is for each sbatch, such as --gpus-per-node=8.
set -euo pipefail
after=()
{lines}
printf '%s\\n' 'when they are finished, this prints the table:' {again}
"""
# A step whose needs have failed says so itself; the others go on.
_ARRAY = """\
job=$(sbatch --parsable "${{after[@]}}" "$@" {path})
after=(--dependency="afterany:$job")"""


def levels(steps: Sequence[Step]) -> list[list[Step]]:
    """Levels of steps in the order of a run; each needs nothing but steps of levels before it."""
    depth: dict[str, int] = {}
    for step in steps:
        depth[step.name] = 1 + max((depth.get(name, 0) for name in step.needs), default=0)
    return [
        [step for step in steps if depth[step.name] == level]
        for level in sorted(set(depth.values()))
    ]


def write(
    kind: str, steps: Sequence[Step], folder: pathlib.Path, title: str, again: str
) -> list[pathlib.Path]:
    """Writes the files of a cluster; gives their paths, the one to begin with last.

    The steps are those that are not done, in the order of a run; `again` is the command that prints
    the table.

    Raises:
      UserError: the launchers are not here, there is nothing to run, or an argument has a line
        break or another control character, which would end a comment or a block of YAML.
    """
    if not steps:
        raise UserError(f'all runs for {title} are finished; leave out --launch to print it')
    for text in (str(folder), again, *(text for step in steps for text in step.arguments)):
        if not text.isprintable():
            raise UserError(f'--launch cannot write {errors.shortened(text)}: remove line breaks')
    name, ending, form, filled = KINDS[kind]
    launcher, by_level = _LAUNCH / name, levels(steps)
    if not launcher.is_file():
        raise UserError(
            f'{launcher} does not exist: the launch scripts are in a clone of the project, but not '
            'in a wheel; run this from a clone'
        )
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for number, of_level in enumerate(by_level, 1):
        paths.append(folder / f'level-{number}.{ending}')
        about = {'title': f'{title}: level {number} of {len(by_level)}', 'path': paths[-1]}
        made = filled(of_level, launcher.read_text(encoding='utf-8'))
        quoted = shlex.quote(str(launcher))
        files.write(paths[-1], form.format(**about, **made, launcher=quoted, again=again))
    if kind == 'slurm':
        lines = '\n'.join(_ARRAY.format(path=shlex.quote(str(path))) for path in paths)
        about = {'title': title, 'count': len(steps), 'levels': len(by_level), 'lines': lines}
        paths.append(folder / 'submit.sh')
        files.write(paths[-1], _SUBMIT.format(**about, again=shlex.quote(again)))
        paths[-1].chmod(0o755)
    return paths


def _array(steps: Sequence[Step], launcher: str) -> dict[str, str | int]:
    cases = (
        f'{number}) # {step.name}\n'
        f'  XLBENCH_MODULE={step.module}\n'
        f'  set -- {shlex.join(step.arguments)} ;;'
        for number, step in enumerate(steps)
    )
    directives = '\n'.join(re.findall(r'^#SBATCH .*$', launcher, re.M))
    return {'steps': '\n'.join(cases), 'directives': directives, 'last': len(steps) - 1}


def _jobsets(steps: Sequence[Step], launcher: str) -> dict[str, str]:
    """A JobSet for each step, with the variables that are the same for all still to be filled."""
    body = '\n'.join(line for line in launcher.splitlines() if not line.startswith('#'))
    sets = []
    for step in steps:
        # In the place of $ARGUMENTS, which the shell would split at spaces.
        line = f'python -m {step.module} {shlex.join(step.arguments)}'
        text = body.replace('${NAME}', jobset_name(step.name)).replace('${ARGUMENTS}', '')
        # Kubernetes and envsubst fill $(X) and $X even within single quotes, in which any $ stands.
        line = line.replace('$', "$''")
        filled = text.replace('python -m xlbench.train $ARGUMENTS', line)
        sets.append(f'# {step.name}\n{filled}')
    return {'steps': '\n---\n'.join(sets)}


Filling = Callable[[Sequence[Step], str], Mapping[str, str | int]]
# Kind -> its launcher, the ending and the form of a level's file, and what fills the form.
KINDS: dict[str, tuple[str, str, str, Filling]] = {
    'slurm': ('slurm.sbatch', 'sbatch', _SLURM, _array),
    'jobset': ('gke_jobset.yaml', 'yaml', _JOBSET, _jobsets),
}


def jobset_name(name: str) -> str:
    """The name of a JobSet: at most 25 of a-z, 0-9 and -. Example: mT5-multi-qg -> mt5-multi-qg."""
    plain = re.sub('[^a-z0-9]+', '-', name.lower()).strip('-')
    if plain == name.lower() and len(plain) <= _NAME_LENGTH:
        return plain
    digest = hashlib.sha256(name.encode()).hexdigest()[:6]
    return f'{plain[: _NAME_LENGTH - 7].strip("-")}-{digest}'
