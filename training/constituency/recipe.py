"""The recipe of a constituency model, which `manifest.json` records."""

from dataclasses import dataclass

from wye.featurizer.encoder import DEFAULT_ENCODER
from wye.featurizer.spacy.pipeline import DEFAULT_PIPELINE


@dataclass(frozen=True, slots=True)
class Recipe:
    """Data and hyper-parameters of a constituency model.

    Attributes:
        pipeline: spaCy pipeline whose tags the model is trained on.
        encoder: Encoder whose input embeddings become the word vectors.
        vector_size: Dimensions of the word vectors.
        most_words: Longer sentences are left out of training.
        hidden: Width of the word and constituent LSTMs.
        transition_hidden: Width of the transition LSTM.
        transition_size: Dimensions of a transition's embedding.
        delta_size: Dimensions of a word's trained embedding.
        tag_size: Dimensions of a tag's embedding.
        word_dropout: Share of the word inputs' values dropped.
        predict_dropout: Share of the output layers' inputs dropped.
        lstm_input_dropout: Share of the stacks' inputs dropped.
        rare_words: Share of the vocabulary, the rarest words, that is sometimes replaced by the
            unknown word.
        unknown: How often that happens. Stanza's default, 2 % of few words, leaves the unknown
            word's vector untrained, and one word in ten of a new text is unknown.
        batch: Trees per step.
        epochs: Number of epochs.
        epoch_trees: Trees per epoch.
        learning_rate: Highest learning rate, reached after `warm_up` steps; then it falls linearly
            to 0.
        warm_up: Steps of rising learning rate.
        weight_decay: AdamW's.
        average: Decay per step of the running mean of the weights; the mean is kept.
        seed: Seed of data, initial weights and order.
    """

    pipeline: str = DEFAULT_PIPELINE
    encoder: str = DEFAULT_ENCODER
    vector_size: int = 128
    most_words: int = 40
    hidden: int = 224
    transition_hidden: int = 32
    transition_size: int = 20
    delta_size: int = 32
    tag_size: int = 24
    word_dropout: float = 0.3
    predict_dropout: float = 0.2
    lstm_input_dropout: float = 0.2
    rare_words: float = 0.5
    unknown: float = 0.25
    batch: int = 30
    epochs: int = 18
    epoch_trees: int = 6000
    learning_rate: float = 2e-3
    warm_up: int = 200
    weight_decay: float = 0.01
    average: float = 0.995
    seed: int = 7

    def stanza_arguments(self, pretrain: str, save_dir: str) -> list[str]:
        """The recipe as arguments of Stanza's command line; Stanza may write to `save_dir`."""
        values: dict[str, object] = {
            "--wordvec_pretrain_file": pretrain,
            "--save_dir": save_dir,
            "--lang": "en",
            "--shorthand": "en_gum",
            "--transition_scheme": "in_order",
            "--num_lstm_layers": 1,
            "--num_output_layers": 2,
            "--hidden_size": self.hidden,
            "--transition_hidden_size": self.transition_hidden,
            "--transition_embedding_dim": self.transition_size,
            "--delta_embedding_dim": self.delta_size,
            "--tag_embedding_dim": self.tag_size,
            "--word_dropout": self.word_dropout,
            "--predict_dropout": self.predict_dropout,
            "--lstm_input_dropout": self.lstm_input_dropout,
            "--rare_word_threshold": self.rare_words,
            "--rare_word_unknown_frequency": self.unknown,
            "--train_batch_size": self.batch,
            "--epochs": self.epochs,
            "--epoch_size": self.epoch_trees,
            "--optim": "adamw",
            "--learning_rate": self.learning_rate,
            "--learning_weight_decay": self.weight_decay,
            "--seed": self.seed,
            "--device": "cpu",
        }
        flags = [
            "--mode",
            "train",
            "--no_retag",
            "--no_multistage",
            "--no_strict_check_constituents",
        ]
        return flags + [str(item) for pair in values.items() for item in pair]
