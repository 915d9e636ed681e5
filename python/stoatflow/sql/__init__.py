"""SQL over the stores of a running application: see `StoatFlow.sql`."""

from stoatflow.sql.engine import Parameters as Parameters
from stoatflow.sql.engine import SqlResult as SqlResult
from stoatflow.sql.errors import ReadOnlyError as ReadOnlyError
from stoatflow.sql.errors import ScanRefusedError as ScanRefusedError
from stoatflow.sql.errors import SqlError as SqlError
from stoatflow.sql.reading import StoreRead as StoreRead
