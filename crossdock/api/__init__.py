"""The HTTP API: what each route does, over ports, and its description. ``functions/api`` adapts it.

``service`` answers from the state store and the result objects. What needs the engine (planning,
tables, reading rows) is a typed message (``messages``) to whoever has it: ``desk``.
"""
