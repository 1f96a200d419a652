"""Made-up official files of XTREME, and TFDS's own builders over them."""

import contextlib
from unittest import mock

from xlbench.tasks import xtreme


def built(name: str, data_dir, source, **methods) -> None:
    """Has TFDS prepare a dataset from `source` in place of a download."""
    tfds = xtreme.tensorflow_datasets()
    with mock.patch.multiple(
        tfds.download.DownloadManager,
        download_and_extract=lambda self, urls: (
            dict.fromkeys(urls, str(source)) if isinstance(urls, dict) else str(source)
        ),
        extract=lambda self, path: path.removesuffix('.tar.gz'),
    ):
        builder = tfds.builder(name, data_dir=str(data_dir))
        config = tfds.download.DownloadConfig(try_download_gcs=False)
        with contextlib.ExitStack() as stack:
            for method, function in methods.items():
                stack.enter_context(mock.patch.object(type(builder), method, function))
            builder.download_and_prepare(download_config=config)


def write(path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding='utf-8')
    return str(path)
