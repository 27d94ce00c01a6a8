"""Programs on Spark: foreachBatch, repartitionById and mapInArrow; no RDD, no SparkContext, no jar.

In reading order: `job`, `engine`, `feeds/`, `exchange/`, `placement/`, `streaming/`, `frames/`, `reporting/`,
`ship`, `modules`, `session`, `connectors`, `java`, `interpreter`.
"""
