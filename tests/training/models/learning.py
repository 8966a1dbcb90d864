"""The training loop of the tests that a small model learns a rule."""

import torch


def learn(model, loss, score, *, goal=0.95, updates=400, lr=0.003):
    """Train until the score of unseen examples, taken every 20 updates, reaches the goal.

    Args:
        loss: called as ``loss(model)`` in training mode. score: likewise in evaluation mode.

    Returns:
        the best score.
    """
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    best = 0.0
    for update in range(1, updates + 1):
        optimizer.zero_grad()
        loss(model.train()).backward()
        optimizer.step()
        if update % 20 == 0:
            with torch.no_grad():
                best = max(best, float(score(model.eval())))
            if best >= goal:
                break
    return best
