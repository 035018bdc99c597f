CREATE TABLE entry (id INTEGER PRIMARY KEY, owner TEXT, cents INTEGER);
CREATE INDEX entry_owner ON entry (owner);
WITH RECURSIVE counter (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counter WHERE n < 300)
INSERT INTO entry (owner, cents) SELECT 'owner ' || (n * 7919 % 37), n * 31 % 1000 FROM counter;
UPDATE entry SET cents = cents - 10 WHERE owner LIKE 'owner 1%';
SELECT owner, count(*), sum(cents), group_concat(id) FROM entry GROUP BY owner HAVING sum(cents) > 3000 ORDER BY 3 DESC LIMIT 4;
SELECT a.owner, max(b.cents) FROM entry a JOIN entry b ON a.id = b.id + 1 WHERE a.cents BETWEEN 100 AND 700 GROUP BY 1 LIMIT 3;
DELETE FROM entry WHERE id IN (SELECT id FROM entry WHERE cents % 7 = 0);
SELECT printf('%d entries, %.2f', count(*), avg(cents)) FROM entry;
