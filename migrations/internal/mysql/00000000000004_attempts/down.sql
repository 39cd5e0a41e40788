DROP TABLE IF EXISTS diesel_sharded_attempt;
