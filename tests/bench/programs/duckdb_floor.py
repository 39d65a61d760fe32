"""Parse and group with DuckDB, and write nothing: the lower bound for one program on one machine.

python -m tests.bench.programs.duckdb_floor SOURCE
"""

import sys

import duckdb

COUNTS = """
    SELECT date_trunc('minute', try_cast(line[1:19] AS timestamp)) AS log_time, count(*) AS log_count
    FROM read_csv($files, columns = {'line': 'VARCHAR'}, delim = '\x01', quote = '', escape = '', header = false)
    WHERE split_part(line, ' ', 3) = 'ERROR'
    GROUP BY 1
"""

if __name__ == "__main__":
    counts = duckdb.execute(COUNTS, {"files": f"{sys.argv[1]}/**"}).fetchall()
    print(sum(count for _, count in counts))
