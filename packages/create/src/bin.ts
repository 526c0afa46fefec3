#!/usr/bin/env node
import { readFileSync } from 'node:fs'

const needed = neededNode()
if (isOlder(process.versions.node, needed)) {
  process.stderr.write(
    `error: Osmosis needs Node.js ${needed} or newer, but ${process.versions.node} runs this.\nInstall a newer one, e.g. from https://nodejs.org, and run the command again.\n`,
  )
  process.exitCode = 2
} else {
  const { main } = await import('./main.ts')
  process.exitCode = await main(process.argv.slice(2), process.env) // oxlint-disable-line node/no-process-env
}

/** The version in the manifest's `engines.node`, which reads `>=22.19`. */
function neededNode(): string {
  const manifest = readFileSync(new URL('../package.json', import.meta.url), 'utf8')
  return (JSON.parse(manifest) as { engines: { node: string } }).engines.node.replace('>=', '')
}

function isOlder(version: string, than: string): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  const [leastMajor = 0, leastMinor = 0] = than.split('.').map(Number)
  return major < leastMajor || (major === leastMajor && minor < leastMinor)
}
