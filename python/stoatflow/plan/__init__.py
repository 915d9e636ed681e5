"""The user's topology as frozen data: nodes, their functions, and their JSON.

Takes DSL calls, returns the plan that is passed to the engine once. Doesn't repeat checks of the engine.
"""

from stoatflow.plan.builder import Handle, PlanBuilder
from stoatflow.plan.encode import EncodedPlan, encode
from stoatflow.plan.node_base import Function, Node, Udf
from stoatflow.plan.nodes import NODE_CLASSES

__all__ = ["NODE_CLASSES", "EncodedPlan", "Function", "Handle", "Node", "PlanBuilder", "Udf", "encode"]
