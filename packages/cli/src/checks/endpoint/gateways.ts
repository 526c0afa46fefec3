import { ok, type CheckFinding } from '../finding.ts'

/**
 * How gateways make themselves known in the headers of an answer, each as `name: value`. Gateways for models come before those
 * for anything.
 */
const marks: readonly (readonly [gateway: string, mark: RegExp])[] = [
  ['LiteLLM', /^x-litellm-/],
  // `gen-…`, the id of a generation.
  ['OpenRouter', /^x-generation-id: gen-/],
  ['Portkey', /^x-portkey-/],
  ['Cloudflare AI Gateway', /^cf-aig-/],
  ['Helicone', /^helicone-(?:id|status):/],
  ['Kong', /^x-kong-|^via:.*\bkong\//],
  ['Envoy', /^x-envoy-upstream-service-time:|^server: (?:istio-)?envoy$/],
  ['nginx', /^server: nginx\b/],
]

/** The gateways that an answer has passed, by its headers; empty for none that is known. */
export function gatewaysOf(headers: Headers): string[] {
  const lines = Array.from(headers, ([name, value]) => `${name}: ${value.toLowerCase()}`)
  return marks.filter(([, mark]) => lines.some((line) => mark.test(line))).map(([name]) => name)
}

/** Checks of what a gateway can drop, or answer from a cache of its own. */
const inItsHands: ReadonlySet<string> = new Set([
  'endpoint',
  'token ids',
  'logprobs',
  'stream',
  'stream ids',
  'stream logprobs',
  'stream calls',
  'temperature',
])

/** The same findings, of which one names the gateways, and those that may be their doing say so. */
export function withGateways(
  findings: readonly CheckFinding[],
  gateways: readonly string[],
): CheckFinding[] {
  if (gateways.length === 0) return [...findings]
  const names = gateways.join(' and ')
  const hint = `This may be the doing of ${names}, not of the server behind: ask that one directly.`
  const [first, ...others] = findings.map((finding) =>
    finding.level === 'ok' || !inItsHands.has(finding.check)
      ? finding
      : { ...finding, advice: [finding.advice ?? '', hint].join(' ').trim() },
  )
  const named = ok('gateway', `${names} answered, in front of a server`)
  return first === undefined ? [named] : [first, named, ...others]
}
