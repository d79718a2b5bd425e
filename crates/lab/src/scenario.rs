//! Scenario files: topology, devices, links, policy, traffic and seed.
