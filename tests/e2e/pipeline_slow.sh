#!/bin/sh
# Stands for a weir that never comes to serve, for pipeline.test.mjs.
exec sleep 60
