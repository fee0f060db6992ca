"""A controller's decisions, pure: broker sets and elections (`broker_sets`), and who lives
(`liveness`).
"""
