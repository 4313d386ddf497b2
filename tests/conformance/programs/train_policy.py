"""Reinforcement learning with distributions: REINFORCE, actor and critic, and clipped ratios for discrete and
continuous actions. Chance comes from outside."""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.distributions import Categorical
from torch.distributions.normal import Normal

rng = random.Random(5)


class Walk:
    """Left or right from the middle; the right end is worth 1."""

    def reset(self):
        self.place, self.time = 0, 0
        return [0.0, 1.0]

    def step(self, action):
        self.place += 1 if action == 1 else -1
        self.time += 1
        done = abs(self.place) == 3 or self.time == 9
        return [self.place / 3, 1.0], float(self.place == 3), done


class Policy(nn.Module):
    def __init__(self):
        super(Policy, self).__init__()
        self.affine1 = nn.Linear(2, 8)
        self.action_head = nn.Linear(8, 2)
        self.value_head = nn.Linear(8, 1)
        self.saved_actions = []
        self.rewards = []

    def forward(self, x):
        x = F.relu(self.affine1(x))
        return F.softmax(self.action_head(x), dim=-1), self.value_head(x)


def start(model):
    for p in model.parameters():
        p.data = torch.tensor([rng.uniform(-0.5, 0.5) for _ in range(p.numel())]).view_as(p)
    return model


model = start(Policy())
optimizer = optim.Adam(model.parameters(), lr=3e-2)
eps = torch.finfo(torch.float32).eps


def select_action(state):
    probs, value = model(torch.tensor(state))
    m = Categorical(probs)
    action = torch.tensor(int(rng.random() < m.probs[1].item()))
    model.saved_actions.append((m.log_prob(action), value, m.entropy()))
    return action.item()


def finish_episode():
    total, returns = 0.0, []
    for r in model.rewards[::-1]:
        total = r + 0.9 * total
        returns.insert(0, total)
    returns = torch.tensor(returns)
    returns = (returns - returns.mean()) / (returns.std() + eps)
    policy_losses, value_losses = [], []
    for (log_prob, value, _), r in zip(model.saved_actions, returns):
        policy_losses.append(-log_prob * (r - value.item()))
        value_losses.append(F.smooth_l1_loss(value, torch.tensor([r])))
    loss = torch.stack(policy_losses).sum() + torch.stack(value_losses).sum()
    loss = loss - 0.01 * torch.stack([e for _, _, e in model.saved_actions]).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    del model.rewards[:], model.saved_actions[:]
    return loss.item()


env = Walk()
for episode in range(12):
    state, done = env.reset(), False
    while not done:
        state, reward, done = env.step(select_action(state))
        model.rewards.append(reward)
    print("episode %2d end %2d loss %.4f" % (episode, env.place, finish_episode()))


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))
        self.logits = nn.Linear(3, 4)
        self.logstd = nn.Parameter(torch.zeros(1, 2))

    def forward(self, x, move, turn):
        mean = self.mean(x)
        moves = Normal(mean, torch.exp(self.logstd.expand_as(mean)))
        turns = Categorical(logits=self.logits(x))
        log_prob = moves.log_prob(move).sum(1) + turns.log_prob(turn)
        return log_prob, moves.entropy().sum(1) + turns.entropy()


agent = start(Agent())
optimizer = optim.Adam(agent.parameters(), lr=1e-2, eps=1e-5)
obs = torch.tensor([[rng.uniform(-1, 1) for _ in range(3)] for _ in range(20)])
move = torch.tensor([[rng.gauss(0, 1) for _ in range(2)] for _ in range(20)])
turn = torch.tensor([rng.randrange(4) for _ in range(20)])
advantage = (turn == 2).float() - (move - obs[:, :2]).pow(2).sum(1)
advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
with torch.no_grad():
    old, _ = agent(obs, move, turn)
for epoch in range(5):
    new, entropy = agent(obs, move, turn)
    ratio = (new - old).exp()
    with torch.no_grad():
        approx_kl = ((ratio - 1) - (new - old)).mean()
        clipped = ((ratio - 1.0).abs() > 0.2).float().mean().item()
    loss = torch.max(-advantage * ratio, -advantage * torch.clamp(ratio, 0.8, 1.2)).mean() - 0.01 * entropy.mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
    optimizer.step()
    print("epoch %d loss %.4f kl %.5f clipped %.2f" % (epoch, loss.item(), approx_kl.item(), clipped))
