"""Whether this Python can run the learner, and whether there is such a model: answered before anything is imported that takes seconds.

Each failure names the command that repairs it."""
import argparse
import importlib.metadata
import importlib.util
import json
import re
import sys
from pathlib import Path

LOGGERS = {"tensorboard": ("tensorboard", "tensorboardX")}  # the packages that do; others have the name of their package
NEEDED = {"torch": (2, 4), "transformers": (5,), "peft": (0, 18)}  # the lowest versions
EXAMPLE = "Qwen/Qwen3-0.6B"
GGUF = "has a model in GGUF, a form for programs that only sample."
MADE_FROM = "Pass the folder that it was made from, with config.json and model.safetensors:"


def fail(message):
    """Ends with a code that uv does not end with."""
    print(f"error: {message}", file=sys.stderr)
    raise SystemExit(78)


def check():
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--model", required=True)
    parser.add_argument("--policy-class")
    parser.add_argument("--log", default="")
    options, _ = parser.parse_known_args()
    if sys.version_info < (3, 10):
        fail(f"{sys.executable} is Python {sys.version.split()[0]}, and the learner needs 3.10 or newer. {without_python()}")
    check_packages(["torch"] if options.policy_class else list(NEEDED), versions=not options.policy_class)
    for name in filter(None, options.log.split(",")):
        if not any(map(is_installed, LOGGERS.get(name, (name,)))):
            fail(f"--log {name} needs the package {name}, and {sys.executable} does not have it: {sys.executable} -m pip install {name}\n{without_python()}")
    if options.policy_class is None:
        check_model(options.model)


def check_packages(names, versions):
    missing = [name for name in names if not is_installed(name)]
    old = [] if versions is False else [
        f"{name} {importlib.metadata.version(name)}" for name in names if name not in missing and is_older(name, NEEDED[name])]
    if not missing and not old:
        return
    wanted = " ".join(f"'{name}>={'.'.join(map(str, NEEDED[name]))}'" for name in names)
    if sys.prefix != sys.base_prefix:
        repair = f"Install them: {sys.executable} -m pip install {wanted}"
    else:
        # Pythons of systems often refuse to install packages.
        repair = f"Make one that has them, and pass --python learner/bin/python: {sys.executable} -m venv learner && learner/bin/pip install {wanted}"
    what = " and ".join([f"has no {', '.join(missing)}"] * bool(missing) + [f"has {', '.join(old)}, which is too old"] * bool(old))
    fail(f"{sys.executable} {what}. {repair}\n{without_python()}")


def without_python():
    return "Or leave --python out: then uv (https://docs.astral.sh/uv) installs a Python for the learner."


def is_installed(name):
    try:
        return importlib.util.find_spec(name) is not None
    except ValueError:
        return False


def is_older(name, lowest):
    version = tuple(int(part) for part in re.findall(r"\d+", importlib.metadata.version(name))[: len(lowest)])
    return version < lowest


def check_model(model):
    folder = Path(model)
    if folder.is_dir():
        check_folder(folder)
    elif is_gguf(folder) and folder.exists():
        fail(f"{model} {GGUF} {MADE_FROM} {download('<its name>', folder.parent / 'model')}")
    elif folder.exists():
        fail(f"{model} is a file. --model takes the folder that has it, with config.json and the tokenizer.")
    elif not re.fullmatch(r"[\w-][\w.-]*(/[\w.-]+)?", model):
        fail(f"The folder {model} does not exist. Make it, or leave --model out, which takes {EXAMPLE}: {download(EXAMPLE, model)}")
    else:
        check_name(model)


def check_folder(folder):
    if not (folder / "config.json").is_file():
        if (folder / "adapter_config.json").is_file():
            base = read(folder / "adapter_config.json").get("base_model_name_or_path") or EXAMPLE
            fail(f"{folder} has a LoRA adapter, not a model. Train the model that it belongs to: --model {base}")
        check_gguf(folder)
        fail(f"{folder} has no model: config.json is missing. Put one there: {download(EXAMPLE, folder)}")
    weights = weights_of(folder)
    if not weights:
        check_gguf(folder)
    if "model_type" not in read(folder / "config.json"):
        fail(f"{folder / 'config.json'} does not say which model it is: model_type is missing. {again(folder)}")
    check_weights(folder, weights)
    tokenizers = ("tokenizer.json", "tokenizer.model", "vocab.json", "spiece.model", "tekken.json")
    if not any((folder / name).is_file() for name in tokenizers):
        fail(f"{folder} has no tokenizer: tokenizer.json is missing. Put that of its model there: "
             f"{download('<its name>', folder, 'tokenizer.json tokenizer_config.json chat_template.jinja')}")
    if not any(folder.glob("chat_template*")) and not read(folder / "tokenizer_config.json").get("chat_template"):
        fail(f"{folder} has no chat template: chat_template.jinja is missing, and tokenizer_config.json names none. Models for chats have one: "
             f"{download(EXAMPLE, './' + EXAMPLE.split('/')[1])}")


def check_gguf(folder):
    """Folders of GGUF files often have the config.json of the model that they were made from."""
    if any(map(is_gguf, folder.iterdir())):
        fail(f"{folder} {GGUF} {MADE_FROM} {download('<its name>', folder / 'model')}")


def is_gguf(file):
    return Path(file).suffix.lower() == ".gguf"


def weights_of(folder):
    """The files of the weights, there or missing."""
    listed = read(folder / "model.safetensors.index.json").get("weight_map") or {}
    return sorted({*(folder / str(name) for name in listed.values()), *folder.glob("*.safetensors"), *folder.glob("pytorch_model*.bin")})


def check_weights(folder, files):
    if not files:
        fail(f"{folder} has no weights: model.safetensors is missing. {again(folder)}")
    for file in files:
        if file.suffix == ".safetensors" and not is_whole(file):
            fail(f"{file} is {'cut off or damaged' if file.exists() else 'missing'}. {again(folder)}")


def is_whole(file):
    """Whether a file of tensors has the length that its head says."""
    try:
        with open(file, "rb") as data:
            size = int.from_bytes(data.read(8), "little")
            head = json.loads(data.read(min(size, 2**27)))
            ends = [tensor["data_offsets"][1] for name, tensor in head.items() if name != "__metadata__"]
            return file.stat().st_size == 8 + size + max(ends, default=0)
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return False


def read(file):
    """The object in a file; an empty one when it is missing."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        fail(f"{file} cannot be read: {error}. {again(file.parent)}")
    return found if isinstance(found, dict) else {}


def again(folder):
    return f"Download the model again: {download('<its name>', folder)}"


def check_name(name):
    import huggingface_hub as hub
    from huggingface_hub import errors

    if isinstance(hub.try_to_load_from_cache(name, "config.json"), str):
        return
    try:
        files = [file.rfilename for file in hub.HfApi().model_info(name, timeout=5).siblings or []]
    except (errors.RepositoryNotFoundError, errors.HFValidationError):
        fail(f"There is neither a folder {name} here nor a model {name} on {hub.constants.ENDPOINT} that you may read. Check the name; for a model "
             "with limited access log in: uvx --from huggingface_hub hf auth login")
    except Exception as error:
        fail(f"{name} is not a folder, it was not downloaded before, and {hub.constants.ENDPOINT} does not answer ({type(error).__name__}). With a connection "
             f"download it, here or on another machine, and pass --model with the folder: {download(name, './' + name.split('/')[-1])}")
    if any(map(is_gguf, files)) and not any(Path(file).suffix in (".safetensors", ".bin") for file in files):
        fail(f"{name} {GGUF} Pass the name of the model that it was made from.")


def download(model, folder, files=""):
    return f"uvx --from huggingface_hub hf download {model}{' ' + files if files else ''} --local-dir {folder}"
