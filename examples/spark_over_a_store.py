# %% [markdown]
# # A broker's messages in Spark
#
# Run it cell by cell (VS Code, or Jupyter with jupytext), or as a program:
#
#     pip install 'triolog[pipeline]'
#     python examples/spark_over_a_store.py [STORE]
#
# STORE is a store directory of a RocketMQ broker (`storePathRootDir`: with `commitlog/` in it), or
# of a node of ours, DATA_DIR/NODE/groups/GROUP. It is only read; the broker may run meanwhile.

# %%
import sys
from pathlib import Path

from actors.pipeline import register
from actors.pipeline.session import Profile, open_session

HERE = Path(__file__).parent
STORE = sys.argv[1] if len(sys.argv) > 1 else str(HERE / "../tests/golden/classic/5.3.3/master")

# %% [markdown]
# A session of your own does as well, if its workers have this package.

# %%
spark = open_session(Profile.LOCAL)
register(spark)
log = spark.read.format("rocketmq_commitlog").load(STORE)
log.printSchema()
log.createOrReplaceTempView("log")

# %% What is there, by topic
spark.sql("""
    SELECT topic, count(*) AS messages, sum(size) AS size_bytes,
           min(store_time) AS first, max(store_time) AS last
    FROM log WHERE damage IS NULL GROUP BY topic ORDER BY topic
""").show(truncate=False)

# %% Messages by key and tag
spark.sql("""
    SELECT offset, topic, queue_id, queue_offset, tags, keys
    FROM log WHERE size(keys) > 0 ORDER BY offset
""").show(5, truncate=False)

# %% A property by its name, which is not read unless it is asked for
properties = (
    spark.read.format("rocketmq_commitlog").option("columns", "offset,property_map").load(STORE)
)
properties.selectExpr("offset", "property_map['UNIQ_KEY'] AS uniq_key").show(5, truncate=False)

# %% Is anything damaged? Each row of damage says where it is, how much, and what.
damaged = log.where("damage IS NOT NULL").select("offset", "size", "damage")
print(f"{log.count()} rows, {damaged.count()} of them damage")
damaged.show(truncate=False)
