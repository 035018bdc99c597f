# Tables, indexes, transactions, joins, window functions, JSON, a file database and its dump.
# needs: sqlite3
# seconds: 120
set -eu
sqlite3 test.db <<'SQL'
PRAGMA journal_mode = WAL;
CREATE TABLE items(id INTEGER PRIMARY KEY, name TEXT, weight REAL, kind INTEGER);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30000)
INSERT INTO items SELECT i, 'item' || (i * 7919 % 30011), i * 1.5 / 7, i % 13 FROM n;
CREATE INDEX by_name ON items(name);
SELECT kind, count(*), round(sum(weight), 3), min(name) FROM items GROUP BY kind ORDER BY 2 DESC, 1 LIMIT 5;
SELECT a.name, b.id FROM items a JOIN items b ON a.id = b.id + 1 AND b.kind = 5 ORDER BY a.name LIMIT 3;
SELECT id, sum(weight) OVER (ORDER BY id ROWS 3 PRECEDING) FROM items WHERE id < 6;
SELECT json_group_array(json_object('id', id, 'kind', kind)) FROM items WHERE id < 4;
BEGIN; DELETE FROM items WHERE kind = 3; SELECT count(*) FROM items; ROLLBACK; SELECT count(*) FROM items;
SELECT name FROM items WHERE name LIKE '%99%' AND weight > 6000 ORDER BY 1 LIMIT 3;
UPDATE items SET weight = weight * 2 WHERE name GLOB 'item1*'; SELECT changes();
PRAGMA integrity_check;
VACUUM;
SQL
sqlite3 test.db .dump | sha256sum
sqlite3 test.db 'SELECT * FROM nowhere' || echo "status $?"
