-- One row per flight. `id` is unique over all shards: it comes with the data, no shard counts it up.
-- A flight that was cancelled or never arrived has no delay and no time in the air.
--
-- The shard key is compared byte by byte, as the sharding rule sees it. Under MySQL's usual collations
-- 'N14228' and 'n14228' are equal, but as shard keys they are two, and may live on two shards.
CREATE TABLE flights (
    id             BIGINT      NOT NULL PRIMARY KEY,
    year           SMALLINT    NOT NULL,
    month          SMALLINT    NOT NULL CHECK (month BETWEEN 1 AND 12),
    day            SMALLINT    NOT NULL CHECK (day BETWEEN 1 AND 31),
    sched_dep_time SMALLINT    NOT NULL,        -- local time as the number HHMM: 515 is 5:15
    dep_delay      SMALLINT,                    -- minutes, early is negative
    arr_delay      SMALLINT,
    carrier        VARCHAR(2)  NOT NULL,
    flight         INTEGER     NOT NULL,
    tailnum        VARCHAR(10) CHARACTER SET ascii COLLATE ascii_bin,   -- the shard key; null only on the shard `unkeyed`
    origin         VARCHAR(3)  NOT NULL,
    dest           VARCHAR(3)  NOT NULL,
    air_time       SMALLINT,                    -- minutes
    distance       INTEGER     NOT NULL,        -- miles
    -- By key is how the rows of one shard are read.
    INDEX flights_tailnum (tailnum)
) ENGINE = InnoDB;
