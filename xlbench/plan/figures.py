"""The figures of a plan, as --output writes them."""

from typing import NotRequired, TypedDict

from xlbench.system.files import Block


class Refusal(TypedDict):
    """The answer of libtpu to a program that is too large; bytes, None where it does not say."""

    needed: int | None
    limit: int | None
    message: str


class Array(TypedDict):
    """An array of a program: bytes on one device, type and what the model calls it."""

    bytes: int
    type: str
    op: str


class Exchange(TypedDict):
    """Collectives that are alike: how many run, bytes they work on, bytes that a device sends."""

    kind: str
    between_slices: bool
    count: int
    wire_bytes: float
    bytes: int
    type: NotRequired[str]
    devices: NotRequired[int]
    op: NotRequired[str]


class Roofline(TypedDict):
    """Seconds from the makers' peaks: of products, memory and links, and together."""

    least: dict[str, float]
    most: dict[str, float]
    least_seconds: float
    most_seconds: float


class Estimate(TypedDict, total=False):
    """Seconds of a run of a program, and the model's products over the peak of that time."""

    compiler_seconds: float | None
    compiler_source: str
    compiler_cycles: int
    with_links_seconds: list[float]
    roofline: Roofline
    mfu: dict[str, float]


class Program(TypedDict):
    """A compiled program; what is not required is missing where the compiler refused it."""

    name: str
    shapes: dict[str, list[int]]
    beside: int
    matmul_flops: int
    whole_activations: list[Array]
    compile_seconds: float
    memory: dict[str, int | None]
    estimate: Estimate
    fits: bool | None
    refused: NotRequired[Refusal]
    compiler_flops: NotRequired[float | None]
    bytes_accessed: NotRequired[float | None]
    unreadable: NotRequired[str]
    collectives: NotRequired[list[Exchange] | None]
    largest_collectives: NotRequired[list[Exchange]]
    unknown_loops: NotRequired[int]
    unknown_trips: NotRequired[int]
    largest: NotRequired[list[Array]]


class Plan(TypedDict):
    """All programs of a config on one mesh."""

    mesh: dict[str, int]
    mesh_in_words: str
    parameters: int
    trained_share: float
    device_bytes: dict[str, int]
    model_flops: int
    held_whole: list[str]
    programs: list[Program]
    fits: bool | None


class Trial(TypedDict):
    """A smaller setting that was tried; bytes, and whether its state alone was too large."""

    flags: str
    fits: bool | None
    needed: int | None
    state: NotRequired[bool]


class Hours(TypedDict):
    """The time of training if a step's products run at a share of the devices' peak."""

    mfu: float
    step_seconds: float
    stages: dict[str, float]


class Result(TypedDict):
    """Everything that --output holds."""

    format: int
    topology: str
    device: dict[str, int | float | str | None]
    config: Block
    vocabulary: dict[str, int | str]
    stage: str
    notes: list[str]
    versions: dict[str, str]
    plan: NotRequired[Plan | None]
    fits: NotRequired[bool | None]
    state_bytes: NotRequired[dict[str, int]]
    hours: NotRequired[Hours | None]
    tried: NotRequired[list[Trial]]
    suggestion: NotRequired[str | None]
    suggested_plan: NotRequired[Plan | None]
    all_tried: NotRequired[bool]
