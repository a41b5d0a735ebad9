"""Tiny random checkpoints in the real on-disk formats, made in a second."""

from __future__ import annotations

from pathlib import Path

TEXT = (
    "where is the red fire extinguisher ? question asks about lamp chair sofa table next to on "
    'the a an yes no answerable verdict tool drive abstain { } " : , . you rewrite robot place'
)
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def tiny_chat_model(folder: Path) -> Path:
    """A Qwen2 causal language model of two layers with a byte-level tokenizer and a template."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator([TEXT] * 4, trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>"
    )
    fast.chat_template = TEMPLATE
    fast.save_pretrained(folder)
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=len(fast),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        eos_token_id=fast.eos_token_id,
        pad_token_id=fast.pad_token_id,
        bos_token_id=None,
    )
    Qwen2ForCausalLM(config).save_pretrained(folder)
    return folder


def speaking_chat_model(folder: Path, reply: str) -> Path:
    """A chat model as :func:`tiny_chat_model` makes it, with weights that always say ``reply``.

    Its layers add nothing, so the next token hangs on the last one alone: the prompt's newline is
    followed by the reply, one token of the vocabulary, and that by the end.
    """
    import torch
    from transformers import AutoTokenizer, Qwen2ForCausalLM

    tokenizer = AutoTokenizer.from_pretrained(tiny_chat_model(folder))
    tokenizer.add_tokens([reply])
    tokenizer.save_pretrained(folder)
    model = Qwen2ForCausalLM.from_pretrained(folder)
    model.resize_token_embeddings(len(tokenizer))
    newline = tokenizer("\n")["input_ids"][-1]
    spoken, end = tokenizer.convert_tokens_to_ids(reply), tokenizer.eos_token_id
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith(("o_proj.weight", "down_proj.weight")):
                weight.zero_()
        model.lm_head.weight.zero_()
        embedded = model.model.embed_tokens.weight
        embedded.zero_()
        for token, (here, after) in enumerate(((newline, spoken), (spoken, end))):
            embedded[here, token] = 1.0
            model.lm_head.weight[after, token] = 1.0
    model.save_pretrained(folder)
    return folder


def tiny_grounding_dino(folder: Path) -> Path:
    """Grounding DINO with a small Swin, a small BERT and 20 queries."""
    import torch
    from transformers import (
        BertConfig,
        BertTokenizerFast,
        GroundingDinoConfig,
        GroundingDinoForObjectDetection,
        SwinConfig,
    )

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", "?", *sorted(set("abcdefghi"))]
    words += ["red", "fire", "extinguisher", "lamp", "sofa", "##s"]
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = folder / "vocab.txt"
    vocabulary.write_text("\n".join(words) + "\n")
    BertTokenizerFast(vocab=str(vocabulary)).save_pretrained(folder)
    torch.manual_seed(0)
    config = GroundingDinoConfig(
        backbone_config=SwinConfig(
            image_size=64,
            patch_size=4,
            embed_dim=16,
            depths=[1, 1, 1, 1],
            num_heads=[1, 2, 2, 2],
            window_size=4,
            out_features=["stage2", "stage3", "stage4"],
        ),
        text_config=BertConfig(
            vocab_size=len(words),
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=32,
            max_position_embeddings=64,
        ),
        d_model=32,
        encoder_layers=1,
        decoder_layers=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        num_queries=20,
        num_feature_levels=4,
        max_text_len=16,
        two_stage=True,
        disable_custom_kernels=True,
    )
    GroundingDinoForObjectDetection(config).eval().save_pretrained(folder)
    return folder


def tiny_lama(file: Path) -> Path:
    """A TorchScript module with LaMa's signature: fills the hole with the mean of the rest.

    It refuses sizes that are no multiple of eight, as the real one does.
    """
    import torch

    class Mean(torch.nn.Module):
        def forward(self, image: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            if image.shape[2] % 8 != 0 or image.shape[3] % 8 != 0:
                raise RuntimeError("size is no multiple of 8")
            rest = 1.0 - mask
            mean = (image * rest).sum(dim=[2, 3], keepdim=True) / rest.sum()
            return image * rest + mean * mask

    torch.jit.script(Mean()).save(str(file))
    return file
