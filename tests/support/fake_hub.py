"""A hub of one repository, in place of the one function of huggingface_hub that fetches files."""

import pathlib
import shutil

import huggingface_hub
from huggingface_hub import errors, utils


class FakeHub:
    """A hub with the files of a folder.

    Attributes:
      asked: (repository, revision) of each call that would have used the network.
      snapshot: the folder of the cache, with what has been fetched.
      error: is raised by the next calls, if there is one.
    """

    COMMIT = 'a' * 40

    def __init__(self, folder, monkeypatch):
        self.folder = pathlib.Path(folder)
        self.snapshot = self.folder.parent / 'models--hub' / 'snapshots' / self.COMMIT
        self.asked, self.error = [], None
        monkeypatch.setattr(huggingface_hub, 'snapshot_download', self.snapshot_download)

    def snapshot_download(
        self, repository, *, revision, allow_patterns, local_files_only=False
    ) -> str:
        if local_files_only and not self.snapshot.is_dir():
            raise errors.LocalEntryNotFoundError('not in the cache')
        if not local_files_only:
            self.asked.append((repository, revision))
            if self.error:
                raise self.error
            paths = [path for path in self.folder.rglob('*') if path.is_file()]
            names = [str(path.relative_to(self.folder)) for path in paths]
            for name in utils.filter_repo_objects(names, allow_patterns=allow_patterns):
                (self.snapshot / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(self.folder / name, self.snapshot / name)
            self.snapshot.mkdir(parents=True, exist_ok=True)
        return str(self.snapshot)
