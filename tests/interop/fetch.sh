#!/usr/bin/env bash
# Fetches the peers of the interop tests:
#
#   tests/interop/fetch.sh              everything below
#   tests/interop/fetch.sh store        the message store of each pinned RocketMQ release (Maven)
#   tests/interop/fetch.sh servers      its name server, broker, clients and mqadmin (Maven)
#   tests/interop/fetch.sh go node      the Go client (a program of ours, built with it) and ali-ons for Node
#   tests/interop/fetch.sh grpc         the clients of RocketMQ 5 that speak gRPC: Java (Maven), Python (pip), Node (npm)
#   tests/interop/fetch.sh proxy        RocketMQ's own proxy (Maven)
#   tests/interop/fetch.sh iceberg      Iceberg's runtime for Spark (Maven); Spark itself: .ci/spark-versions
#   tests/interop/fetch.sh 5.5.0        the message store of one release
#
# What is fetched goes to .cache/rocketmq of the project, or to $FLAREMQ_ROCKETMQ_JARS: <version>, <version>-servers,
# go-<digest>, node-<digest>, java-grpc-<version>, python-grpc-<digest>, node-grpc-<digest>,
# proxy-<version>. A folder appears only
# when it is complete, so an interrupted run leaves nothing half done; a folder that exists is left alone. Without Go or Node their part is left out with a word on it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=versions.env
source "$here/versions.env"
target=${FLAREMQ_ROCKETMQ_JARS:-$here/../../.cache/rocketmq}
mkdir -p "$target"
target=$(cd "$target" && pwd)
work=
trap 'if [ -n "$work" ]; then rm -rf "$work"; fi' EXIT

begin() { # NAME: true if the folder has to be made
    if [ -d "$target/$1" ]; then
        echo "$1: present in $target/$1"
        return 1
    fi
    work=$(mktemp -d "$target/.fetch.XXXXXX") || exit 1
    chmod 755 "$work"
}

finish() { # NAME MADE: the finished folder gets its name
    chmod 755 "$work/$2"
    mv "$work/$2" "$target/$1"
    rm -rf "$work"
    work=
    echo "$1: $(find "$target/$1" -type f | wc -l) files in $target/$1"
}

maven() { # NAME VERSION ARTIFACT...
    local name=$1 version=$2
    shift 2
    begin "$name" || return 0
    {
        echo '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        echo '<groupId>flaremq</groupId><artifactId>interop-peer</artifactId><version>1</version><dependencies>'
        for artifact in "$@"; do
            echo "<dependency><groupId>org.apache.rocketmq</groupId><artifactId>$artifact</artifactId><version>$version</version></dependency>"
        done
        echo '</dependencies></project>'
    } >"$work/pom.xml"
    # -C: a jar whose checksum does not match what the registry states fails the run.
    mvn -q -B -C -f "$work/pom.xml" -DincludeScope=runtime -DoutputDirectory="$work/jars" \
        "org.apache.maven.plugins:maven-dependency-plugin:$MAVEN_DEPENDENCY_PLUGIN_VERSION:copy-dependencies"
    finish "$name" jars
}

digest() { # FILE...: a name that changes with the content; programs.py computes the same
    cat "$@" | sha256sum | cut -c 1-16
}

go_client() {
    if ! command -v go >/dev/null; then
        echo "go: not installed, so the Go client is not fetched"
        return 0
    fi
    local name
    name=go-$(cd "$here/wire/go" && digest go.mod go.sum ./*.go)
    begin "$name" || return 0
    mkdir "$work/program"
    (cd "$here/wire/go" && CGO_ENABLED=0 go build -mod=readonly -trimpath -buildvcs=false -o "$work/program/wire" .)
    finish "$name" program
}

node_modules() { # NAME FOLDER: what the package files of a program name
    if ! command -v npm >/dev/null; then
        echo "node: not installed, so $1 is not fetched"
        return 0
    fi
    local name
    name=$1-$(cd "$2" && digest package.json package-lock.json)
    begin "$name" || return 0
    mkdir "$work/modules"
    cp "$2/package.json" "$2/package-lock.json" "$work/modules"
    (cd "$work/modules" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error)
    finish "$name" modules
}

# A folder of its own: the client brings packages that ours must not see, and registers the messages of the protocol.
python_grpc_client() {
    local name
    name=python-grpc-$(digest "$here/grpc/python/requirements.txt")
    begin "$name" || return 0
    "${PYTHON:-python3}" -m pip install --quiet --disable-pip-version-check --no-input --root-user-action ignore \
        --require-hashes --target "$work/packages" -r "$here/grpc/python/requirements.txt"
    finish "$name" packages
}

iceberg_runtime() {
    begin "iceberg-$ICEBERG_VERSION" || return 0
    mkdir "$work/jars"
    mvn -q -B -C -DoutputDirectory="$work/jars" \
        "org.apache.maven.plugins:maven-dependency-plugin:$MAVEN_DEPENDENCY_PLUGIN_VERSION:copy" \
        -Dartifact="org.apache.iceberg:iceberg-spark-runtime-${ICEBERG_SPARK_VERSION%.*}_2.13:$ICEBERG_VERSION"
    finish "iceberg-$ICEBERG_VERSION" jars
}

if [ $# -eq 0 ]; then set -- store servers go node grpc proxy iceberg; fi
for what in "$@"; do
    case $what in
    store) for version in $ROCKETMQ_VERSIONS; do maven "$version" "$version" rocketmq-store; done ;;
    servers)
        for version in $ROCKETMQ_WIRE_VERSIONS; do
            maven "$version-servers" "$version" rocketmq-broker rocketmq-namesrv rocketmq-tools rocketmq-client
        done
        ;;
    go) go_client ;;
    grpc)
        maven "java-grpc-$ROCKETMQ_CLIENT_JAVA_VERSION" "$ROCKETMQ_CLIENT_JAVA_VERSION" rocketmq-client-java
        python_grpc_client
        node_modules node-grpc "$here/grpc/node"
        ;;
    proxy) maven "proxy-$ROCKETMQ_PROXY_VERSION" "$ROCKETMQ_PROXY_VERSION" rocketmq-proxy ;;
    iceberg) iceberg_runtime ;;
    node) node_modules node "$here/wire/node" ;;
    [0-9]*) maven "$what" "$what" rocketmq-store ;;
    *)
        echo "fetch.sh: $what is none of store, servers, go, node, grpc, proxy, iceberg or a version" >&2
        exit 2
        ;;
    esac
done
