-- One row per flight. `id` is unique over all shards: it comes with the data, no shard counts it up.
-- A flight that was cancelled or never arrived has no delay and no time in the air.
CREATE TABLE flights (
    id             INTEGER  NOT NULL PRIMARY KEY,
    year           SMALLINT NOT NULL,
    month          SMALLINT NOT NULL CHECK (month BETWEEN 1 AND 12),
    day            SMALLINT NOT NULL CHECK (day BETWEEN 1 AND 31),
    sched_dep_time SMALLINT NOT NULL,           -- local time as the number HHMM: 515 is 5:15
    dep_delay      SMALLINT,                    -- minutes, early is negative
    arr_delay      SMALLINT,
    carrier        TEXT     NOT NULL,
    flight         INTEGER  NOT NULL,
    tailnum        TEXT,                        -- the shard key; null only on the shard `unkeyed`
    origin         TEXT     NOT NULL,
    dest           TEXT     NOT NULL,
    air_time       SMALLINT,                    -- minutes
    distance       INTEGER  NOT NULL            -- miles
);

-- By key is how the rows of one shard are read.
CREATE INDEX flights_tailnum ON flights (tailnum);
