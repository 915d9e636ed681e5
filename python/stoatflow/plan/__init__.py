"""What the user wrote, as frozen data: nodes, the functions they hold, and their JSON.

Takes DSL calls, gives the plan that crosses the border once. Never checks what the engine checks.
"""

from stoatflow.plan.builder import Handle, PlanBuilder
from stoatflow.plan.encode import EncodedPlan, encode
from stoatflow.plan.nodes import NODE_CLASSES, Function, Node, Udf

__all__ = ["NODE_CLASSES", "EncodedPlan", "Function", "Handle", "Node", "PlanBuilder", "Udf", "encode"]
