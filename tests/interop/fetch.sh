#!/usr/bin/env bash
# Fetches the message store of each pinned RocketMQ release, with what it needs to run, by Maven:
#
#   tests/interop/fetch.sh              all releases of versions.env
#   tests/interop/fetch.sh 5.5.0        one of them
#
# Jars go to .cache/rocketmq/<version> of the project, or below $FLAREMQ_ROCKETMQ_JARS. A folder appears only when it
# is complete, so an interrupted run leaves nothing half done; a folder that exists is left alone.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=versions.env
source "$here/versions.env"
target=${FLAREMQ_ROCKETMQ_JARS:-$here/../../.cache/rocketmq}
mkdir -p "$target"
target=$(cd "$target" && pwd)
if [ $# -gt 0 ]; then versions=("$@"); else read -ra versions <<<"$ROCKETMQ_VERSIONS"; fi

for version in "${versions[@]}"; do
    if [ -d "$target/$version" ]; then
        echo "rocketmq $version: present in $target/$version"
        continue
    fi
    work=$(mktemp -d "$target/.fetch.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    cat >"$work/pom.xml" <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>flaremq</groupId><artifactId>interop-peer</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.rocketmq</groupId><artifactId>rocketmq-store</artifactId><version>$version</version></dependency>
  </dependencies>
</project>
POM
    # -C: a jar whose checksum does not match what the registry states fails the run.
    mvn -q -B -C -f "$work/pom.xml" -DincludeScope=runtime -DoutputDirectory="$work/jars" \
        "org.apache.maven.plugins:maven-dependency-plugin:$MAVEN_DEPENDENCY_PLUGIN_VERSION:copy-dependencies"
    chmod 755 "$work" "$work/jars"
    mv "$work/jars" "$target/$version"
    rm -rf "$work"
    trap - EXIT
    echo "rocketmq $version: $(find "$target/$version" -name '*.jar' | wc -l) jars in $target/$version"
done
