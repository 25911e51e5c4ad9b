"""Networks that read text."""

from vtakit.models.net import Net, Tensor

WORDS, STEPS = 10_000, 35  # of the Penn Treebank's vocabulary; of a sequence
TOKENS, LENGTH = 30_522, 128  # of BERT's vocabulary; of a sequence
_PLACES, _KINDS = 512, 2  # rows of BERT's tables of places and of kinds of tokens
_WIDTH, _HEADS, _BLOCKS = 256, 4, 4


def language_model(net: Net, x: Tensor) -> Tensor:
    """Zaremba et al., 2014, the medium network: two layers of 650 cells, and for each word a logit for what comes next."""
    x = net.transpose(net.embedding(x, WORDS, 650, name="embedding"), (1, 0, 2), name="time_first")
    for number in (1, 2):
        x = net.lstm(x, 650, scale=0.05, name=f"lstm{number}")
    return net.dense(net.transpose(x, (1, 0, 2), name="batch_first"), WORDS, name="fc")


def bert_mini(net: Net, x: Tensor) -> Tensor:
    """Turc et al., 2019: four blocks of Devlin et al.'s encoder, 256 wide with four heads; the first token's pooled state.

    Tokens [N, 128] are of the first kind, and attend to all. Nodes are those that PyTorch exports: Gelu is made of Erf.
    """
    words = net.embedding(x, TOKENS, _WIDTH, name="embeddings.word")
    kinds = net.first_rows(_KINDS, _WIDTH, 1, name="embeddings.kind")
    places = net.first_rows(_PLACES, _WIDTH, LENGTH, name="embeddings.place")
    x = net.add(net.add(words, kinds, name="embeddings.kinds"), places, name="embeddings.sum")
    x = net.layer_norm(x, name="embeddings.norm")
    for number in range(_BLOCKS):
        x = _block(net, x, f"layer{number}")
    first = net.reshape(net.first(x, name="first"), (_WIDTH,), name="first_token")
    return net.tanh(net.dense(first, _WIDTH, name="pooler"), name="pooled")


def attention(net: Net, x: Tensor, heads: int, name: str) -> Tensor:
    """Self-attention of tokens [N, tokens, width] (Vaswani et al., 2017) up to the heads side by side, of the same shape."""
    tokens, width = x.data.shape[1:]

    def part(word: str, perm: tuple[int, ...]) -> Tensor:
        made = net.dense(x, width, name=f"{name}.{word}")
        return net.transpose(net.reshape(made, (tokens, heads, width // heads), name=f"{name}.{word}.split"), perm,
                             name=f"{name}.{word}.heads")
    query, key, value = part("query", (0, 2, 1, 3)), part("key", (0, 2, 3, 1)), part("value", (0, 2, 1, 3))
    scores = net.scale(net.matmul(query, key, name=f"{name}.scores"), (width // heads) ** -0.5, name=f"{name}.scaled")
    shown = net.matmul(net.softmax(scores, name=f"{name}.softmax"), value, name=f"{name}.context")
    return net.reshape(net.transpose(shown, (0, 2, 1, 3), name=f"{name}.back"), (tokens, width), name=f"{name}.joined")


def _block(net: Net, x: Tensor, name: str) -> Tensor:
    joined = attention(net, x, _HEADS, name)
    x = net.layer_norm(net.add(net.dense(joined, _WIDTH, name=f"{name}.output"), x, name=f"{name}.residual"), name=f"{name}.norm")
    wide = net.gelu(net.dense(x, 4 * _WIDTH, name=f"{name}.wide"), name=f"{name}.gelu")
    return net.layer_norm(net.add(net.dense(wide, _WIDTH, name=f"{name}.narrow"), x, name=f"{name}.residual2"),
                          name=f"{name}.norm2")
