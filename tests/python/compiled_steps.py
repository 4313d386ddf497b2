"""Changes a program so that its training steps are compiled: in each loop, the statements around a backward pass that
do nothing but compute with tensors become a function, which is given what the loop changes and returns what it assigns.

    for x, y in data:                          for x, y in data:
        loss = f(net(x), y)                        @compiled_step        (made once, in front of the loop)
        loss.backward()             ->             def step(x=None, y=None):
        optimiser.step()                               loss = ...
        print(loss.item())                             return {"loss": loss}    (what it assigned)
                                                   loss = step(x=x, y=y)["loss"]
                                                   print(loss.item())

What Python does besides (prints, draws numbers, keeps a list, reads a value) would happen once, when the function is
captured: statements with such things stay outside.
"""
import ast

AS_TREE = ast.PyCF_ONLY_AST
# Names of functions and methods that do more than compute with tensors.
BESIDES = {"print", "rng", "random", "input", "open", "next", "append", "extend", "pop", "update", "write", "item",
           "tolist", "numpy", "seed", "manual_seed", "setdefault", "insert", "locals", "globals", "exec"}
LEAVES = (ast.Return, ast.Break, ast.Continue, ast.Yield, ast.YieldFrom, ast.Await, ast.Global, ast.Nonlocal,
          ast.Import, ast.ImportFrom, ast.Delete, ast.FunctionDef, ast.ClassDef, ast.NamedExpr, ast.Lambda)


def words(node):
    """The names and attributes in a piece of code."""
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            yield part.id
        elif isinstance(part, ast.Attribute):
            yield part.attr


def stored(nodes):
    """Names that are assigned, without those of comprehensions."""
    found, inner = set(), set()
    for node in nodes:
        for part in ast.walk(node):
            if isinstance(part, ast.comprehension):
                inner |= {n.id for n in ast.walk(part.target) if isinstance(n, ast.Name)}
            elif isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                found.add(part.id)
    return found - inner


def read(nodes):
    found = {part.id for node in nodes for part in ast.walk(node)
             if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load)}
    return found | {part.target.id for node in nodes for part in ast.walk(node)
                    if isinstance(part, ast.AugAssign) and isinstance(part.target, ast.Name)}


def needed(statements):
    """Names that are read before they are surely assigned."""
    found, known = set(), set()
    for statement in statements:
        found |= read([statement]) - known
        if isinstance(statement, ast.Assign):
            known |= stored([statement])
    return found


def goes_backward(node):
    return any(isinstance(part, ast.Attribute) and part.attr in ("backward", "grad") and isinstance(part.ctx, ast.Load)
               for call in ast.walk(node) if isinstance(call, ast.Call) for part in [call.func])


class Steps(ast.NodeTransformer):
    def __init__(self, tree):
        self.besides, self.count = set(BESIDES), 0
        functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
        for _ in functions:  # those that call others of the kind
            self.besides |= {f.name for f in functions if self.besides & set(words(f))}

    def computes(self, node):
        """Whether a statement does nothing else."""
        sets = any(isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store) and part.attr != "grad"
                   for part in ast.walk(node))
        return not (sets or self.besides & set(words(node))
                    or any(isinstance(part, LEAVES) for part in ast.walk(node)))

    def visit_For(self, node):
        self.generic_visit(node)
        runs, front, body = [], [], []
        for statement in node.body:
            if not (runs and runs[-1][0] and self.computes(statement)):
                runs.append((self.computes(statement), []))
            runs[-1][1].append(statement)
        for computes, statements in runs:
            if computes and any(map(goes_backward, statements)):
                made, call = self.step(node, statements)
                front.append(made)
                body += call
            else:
                body += statements
        node.body = body
        return front + [node]

    def step(self, loop, statements):
        """The function, and what stands in its place."""
        self.count += 1
        name, kept = f"step_{self.count}", sorted(stored(statements))
        given = sorted(needed(statements) & stored([loop]))
        text = (f"@compiled_step\ndef {name}({', '.join(f'{g}=None' for g in given)}):\n    given = dict(locals())\n"
                f"    return {{n: v for n, v in locals().items() if n in {set(kept)!r} and v is not given.get(n)}}\n")
        made = ast.parse(text.replace("given", f"given_{self.count}")).body[0]
        made.body[1:1] = statements
        text = f"made = {name}(**{{n: v for n, v in locals().items() if n in {set(given)!r}}})\n"
        text += "".join(f"if {k!r} in made: {k} = made[{k!r}]\n" for k in kept)
        return made, ast.parse(text.replace("made", f"made_{self.count}")).body


def changed(tree):
    return ast.fix_missing_locations(Steps(tree).visit(tree))
