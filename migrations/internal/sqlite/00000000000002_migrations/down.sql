DROP TABLE IF EXISTS diesel_sharded_lock;
DROP TABLE IF EXISTS diesel_sharded_progress;
DROP TABLE IF EXISTS diesel_sharded_migration;
