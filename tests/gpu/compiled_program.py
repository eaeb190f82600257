"""A GPT under `torch.compile`, trained for some steps: `python compiled_program.py [STEPS] [BERT]`."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))

from training_programs import GPT


def main(steps: int, kind: str) -> None:
    torch.manual_seed(0)
    if kind == "bert":
        from transformers import BertConfig, BertForMaskedLM

        plain = BertForMaskedLM(BertConfig(num_hidden_layers=4)).to("cuda").train()
        ids = torch.randint(30000, (16, 512), device="cuda")
        compiled = torch.compile(plain)

        def loss() -> torch.Tensor:
            return compiled(input_ids=ids, labels=ids).loss
    else:
        plain = GPT().to("cuda")
        ids = torch.randint(50304, (8, 512), device="cuda")
        compiled = torch.compile(plain)

        def loss() -> torch.Tensor:
            return torch.nn.functional.cross_entropy(compiled(ids).flatten(0, 1), ids.flatten())

    optimizer = torch.optim.AdamW(plain.parameters(), lr=1e-4, fused=True)
    for _ in range(steps):
        with torch.autocast("cuda", torch.bfloat16):
            value = loss()
        value.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3, sys.argv[2] if len(sys.argv) > 2 else "gpt")
