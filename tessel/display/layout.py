"""Where the boxes of a graph go: layers from left to right, each box after all it follows."""

from __future__ import annotations

from tessel.display.documents import Edge, Graph, Node, Tree


def graph_of_tree(tree: Tree) -> Graph:
    """Return a tree as a graph whose edges lead from each child to its parent.

    Trees are plans: what is below is done first, and its rows flow up.
    """
    nodes: list[Node] = []
    edges: list[Edge] = []

    def visit(part: Tree) -> str:
        name = f"n{len(nodes)}"
        nodes.append(Node(name, part.label, part.facts))
        edges.extend(Edge(visit(child), name) for child in part.children)
        return name

    visit(tree)
    return Graph(tuple(nodes), tuple(edges))


def layers(graph: Graph) -> list[list[Node]]:
    """Return the nodes by layer: one more than the deepest of those with an edge to it.

    Edges that close a cycle count for nothing. Within a layer nodes keep their order.
    """
    before: dict[str, list[str]] = {node.name: [] for node in graph.nodes}
    for edge in graph.edges:
        before[edge.target].append(edge.source)
    depth: dict[str, int] = {}
    for start in before:
        # Depth first without recursion: plans may be deep. A name on the path is part of a cycle.
        path = [start]
        on_path = {start}
        while path:
            name = path[-1]
            ahead = [s for s in before[name] if s not in depth and s not in on_path]
            if ahead:
                path.append(ahead[0])
                on_path.add(ahead[0])
            else:
                depth.setdefault(
                    name, 1 + max((depth.get(s, -1) for s in before[name]), default=-1)
                )
                on_path.discard(path.pop())
    found: list[list[Node]] = [[] for _ in range(1 + max(depth.values(), default=-1))]
    for node in graph.nodes:
        found[depth[node.name]].append(node)
    return [layer for layer in found if layer]
