"""Programs on Spark: foreachBatch, repartitionById and mapInArrow; no RDD, no SparkContext, no jar."""
