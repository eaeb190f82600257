"""Published systems that no study here can be about, and why."""

from __future__ import annotations

UNSTUDIED = (
    (
        "A08",
        "State Twins",
        "forks of a market's state in under a second",
        "a replica of smart contracts; nothing in it is computed or sent by a machine learning system",
    ),
    (
        "A12",
        "Byzantine consensus in directed graphs",
        "conditions on graphs that are necessary and sufficient",
        "a theorem: there is no quantity to measure",
    ),
    (
        "A15",
        "RISC-V vector portability",
        "one compiler beats another in 4 of 6 applications",
        "needs the hardware and the two compilers; a simulation would only repeat its input",
    ),
    (
        "A25",
        "Population protocols over ordered agents",
        "which languages they decide",
        "a theorem: there is no quantity to measure",
    ),
    (
        "A26",
        "Orbital anomaly labelling",
        "recall of manoeuvres 55.4 %, of decays 62.8 %",
        "accuracy of an application on its own data; no simulation can say",
    ),
    (
        "A29",
        "PoHAR",
        "97.41 % of activities recognised, in under 34 µs",
        "accuracy of sensors; the latency is that of a few hundred instructions",
    ),
    (
        "A33",
        "Light Cone Consistency",
        "one theory of 50 consistency models",
        "theory: there is no quantity to measure",
    ),
    (
        "A35",
        "TS-Verkle",
        "a library of Verkle trees",
        "its cost is gas on a blockchain, which is not time on a machine",
    ),
    (
        "A55",
        "TACO",
        "a model checker of threshold automata",
        "verification: what it decides is a proof, not a performance",
    ),
    (
        "A65",
        "DeFi risk in nine dimensions",
        "5 of 12 incidents explained",
        "a classification of incidents in finance",
    ),
    (
        "A72",
        "Serverless in the edge-cloud-space continuum",
        "ten assumptions that break",
        "a position paper: it proposes no mechanism that could be tried",
    ),
    (
        "A74",
        "phys-MCP",
        "a control plane for physical neural networks",
        "its devices are physical substrates that no device model here describes",
    ),
    (
        "B21",
        "Twelve tips for AI-driven HPC workflows",
        "practical advice",
        "advice: there is no mechanism to try",
    ),
)
"""Id, system, claim, reason."""
