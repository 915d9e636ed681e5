"""The user's topology as frozen data: nodes, their functions, and their JSON.

Takes DSL calls, returns the plan that is passed to the engine once. Doesn't repeat checks of the engine.
"""

from stoatflow.plan.builder import Handle, PlanBuilder
from stoatflow.plan.encode import EncodedPlan, encode
from stoatflow.plan.nodes import NODE_CLASSES, Function, Node, Udf

__all__ = ["NODE_CLASSES", "EncodedPlan", "Function", "Handle", "Node", "PlanBuilder", "Udf", "encode"]
