import pytest
import torch
from torch import nn


class LinearModel(nn.Module):
    """Word vectors, a matrix and a bias."""

    def __init__(self):
        super().__init__()
        self.vectors = nn.Embedding(5, 3)
        self.map = nn.Linear(3, 2)
        self.frozen = nn.Parameter(torch.ones(2, 2), requires_grad=False)
        self.classification_heads = {"sentence_classification_head": self.map}

    def forward(self, words, features_only, classification_head_name):
        return self.map(self.vectors(words)), None


@pytest.fixture
def sample():
    return {
        "id": torch.arange(4),
        "target": torch.tensor([0, 1, 1, 0]),
        "ntokens": 4,
        "net_input": {"words": torch.tensor([1, 2, 3, 1])},
    }


def test_l2_adds_each_weight_to_its_gradient_but_for_vectors_and_biases(build_criterion, sample):
    plain, regularised = (
        build_criterion("sentence_classification", 2, l2=factor) for factor in (0.0, 0.5)
    )
    model = LinearModel()
    gradients = []
    for criterion in (plain, regularised):
        model.zero_grad()
        loss, sentences, logged = criterion(model, sample)
        (loss / sentences).backward()
        gradients.append([p.grad.clone() for p in (model.map.weight, model.map.bias)])
        gradients[-1].append(model.vectors.weight.grad.clone())
        assert logged["loss"].item() == pytest.approx(plain(model, sample)[0].item())
    (weight, *others), (decayed_weight, *same_others) = gradients
    torch.testing.assert_close(decayed_weight, weight + 0.5 * model.map.weight.detach())
    torch.testing.assert_close(same_others, others)


def test_l2_all_is_the_weight_decay_of_pytorchs_adam(build_criterion, sample):
    updated = []
    for l2, decay in ((0.5, 0.0), (0.0, 0.5)):
        torch.manual_seed(0)
        model = LinearModel()
        criterion = build_criterion("sentence_classification", 2, l2=l2, l2_all=True)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1, weight_decay=decay)
        for _ in range(2):
            optimizer.zero_grad()
            loss, sentences, _ = criterion(model, sample)
            (loss / sentences).backward()
            optimizer.step()
        updated.append(model.state_dict())
    torch.testing.assert_close(*updated)


def test_l2_is_no_part_of_a_validation_loss(build_criterion, sample):
    criterion = build_criterion("sentence_classification", 2, l2=0.5)
    loss, _, logged = criterion(LinearModel().eval(), sample)
    assert loss.item() == logged["loss"].item()


@pytest.mark.parametrize("name", ["sentence_classification", "relatedness", "rating_regression"])
def test_a_task_without_classes_or_scores_is_refused(build_criterion, name):
    with pytest.raises(ValueError, match=f"^--criterion {name}: is for sentences; give --task "):
        build_criterion(name, None, _name=name)
