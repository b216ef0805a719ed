"""Queries as Spark jobs: the only part that knows pyspark.

Importing this imports no pyspark; that happens when a session is asked for. Modules, inside out:
``java`` (which Java), ``aot`` (a faster start), ``settings``, ``driver`` and ``runtime`` (the
session), ``daemon`` (the workers), ``blobs``, ``wire`` and ``errors_wire``, ``parts`` and
``plugins`` (what travels), ``tasks``, ``task_events``, ``flows``, ``jobs`` and ``executor`` (the
jobs), ``source`` (data into Spark and out of it), ``submission`` (the package as a file,
spark-submit), ``doctor`` (does it work here).
"""

from tessel.spark_exec.aot import Warmup, warmup
from tessel.spark_exec.doctor import Diagnosis, diagnose
from tessel.spark_exec.executor import SparkExecutor
from tessel.spark_exec.java import JavaCandidate, JavaChoice, choose_java, java_candidates
from tessel.spark_exec.runtime import active_session, is_own_session, spark_session, stop_session
from tessel.spark_exec.source import register_source
from tessel.spark_exec.submission import package_archive, spark_submit

__all__ = [
    "Diagnosis",
    "JavaCandidate",
    "JavaChoice",
    "SparkExecutor",
    "Warmup",
    "active_session",
    "choose_java",
    "diagnose",
    "is_own_session",
    "java_candidates",
    "package_archive",
    "register_source",
    "spark_session",
    "spark_submit",
    "stop_session",
    "warmup",
]
