#!/usr/bin/env bash
# Runs an evaluation in the working folder and compares it with an earlier run. Writes both to the summary of the job, and
# to a file for a comment. Ends with the code of the evaluation, else with that of the comparison if it has a limit.
set -euo pipefail

files=$(mktemp -d "${RUNNER_TEMP:-/tmp}/osmosis-evaluation.XXXXXX")
page=${GITHUB_STEP_SUMMARY:-/dev/null}
run=$PWD/.osmosis/evals/$NAME
{
  echo "run=$run"
  echo "comment=$files/comment.md"
} >>"$GITHUB_OUTPUT"

# The command of this workspace; npx would otherwise download a package of that name.
osmosis() { npx --no-install osmosis "$@"; }

evaluated=0
read -r -d '' -a arguments <<<"$ARGUMENTS" || true
touch "$files/started"
osmosis eval run "$CONFIG" --name "$NAME" --fresh --yes \
  --output "$PWD/.osmosis/evals" ${arguments[@]+"${arguments[@]}"} || evaluated=$?
# An earlier run of that name is not the result.
if [ "$run/manifest.json" -nt "$files/started" ]; then
  {
    printf '### %s\n\n' "$NAME"
    # Indented, it is code: GitHub shows every character of what a model said, and notifies nobody whom it mentions.
    COLUMNS=100 osmosis eval show "$run" | sed 's/^/    /'
  } >"$files/result.md"
fi

compared=0
touch "$files/comparison.md" "$files/result.md"
if [ -n "$BASELINE" ] && [ ! -f "$BASELINE/manifest.json" ]; then
  echo "There is no run in $BASELINE: the result is not compared."
elif [ -n "$BASELINE" ] && [ -s "$files/result.md" ]; then
  osmosis eval compare "$BASELINE" "$run" --markdown ${FAIL_IF_WORSE:+"--fail-if-worse=$FAIL_IF_WORSE"} \
    >"$files/comparison.md" 2>"$files/problem.txt" || compared=$?
  cat "$files/problem.txt" >&2
  [ -s "$files/comparison.md" ] || sed 's/^/> /' "$files/problem.txt" >"$files/comparison.md"
fi

cat "$files/result.md" "$files/comparison.md" >>"$page"
{
  # By this line the comment is found again.
  echo "<!-- osmosis evaluation: $NAME -->"
  if [ ! -s "$files/result.md" ]; then
    echo "### $NAME: no result"
    echo
    echo "The evaluation ended with code $evaluated. The log says why."
  elif [ -s "$files/comparison.md" ]; then
    cat "$files/comparison.md"
    printf '\n<details>\n<summary>Result</summary>\n\n'
    cat "$files/result.md"
    printf '</details>\n'
  else
    cat "$files/result.md"
  fi
  printf '\n[Log](%s/%s/actions/runs/%s) of %s\n' \
    "$GITHUB_SERVER_URL" "$GITHUB_REPOSITORY" "$GITHUB_RUN_ID" "$GITHUB_SHA"
} >"$files/comment.md"

[ "$evaluated" -eq 0 ] || exit "$evaluated"
[ -z "$FAIL_IF_WORSE" ] || exit "$compared"
