-- Inserts, an index, joins, aggregates, updates and text functions, all in memory.
create table customer(id integer primary key, name text, region integer);
create table purchase(id integer primary key, customer integer, product integer, amount real, note text);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 5000)
  insert into customer select i, 'customer-' || (i * 7919 % 5000), i * 31 % 17 from n;
with recursive n(i) as (select 1 union all select i + 1 from n where i < 120000)
  insert into purchase
  select i, (i * 7927) % 5000 + 1, (i * 104729) % 300, ((i * 15485863) % 10000) / 64.0,
         'note ' || printf('%04X', (i * 2654435761) % 65536) from n;
create index purchase_customer on purchase(customer);
create index purchase_product on purchase(product, amount);
select region, count(*), round(sum(amount), 3), round(avg(amount), 6)
  from customer join purchase on purchase.customer = customer.id group by region order by region;
select product, max(amount), min(note), count(distinct customer)
  from purchase group by product order by 2 desc, 1 limit 10;
update purchase set amount = amount * 2 where product % 7 = 3;
delete from purchase where note like '%A7%';
select c.name, (select count(*) from purchase p where p.customer = c.id and p.amount > 100)
  from customer c order by 2 desc, 1 limit 10;
select count(*) from purchase a join purchase b on a.product = b.product and a.amount = b.amount and a.id < b.id;
select sum(length(replace(upper(note), 'NOTE', 'x'))), sum(instr(note, 'F')) from purchase;
select region, name, spent from (
  select region, name, spent, row_number() over (partition by region order by spent desc, name) as place from (
    select region, name, round(sum(amount), 3) as spent
      from customer join purchase on purchase.customer = customer.id group by customer.id))
  where place <= 2 order by region, place;
