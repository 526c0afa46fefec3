import { Template } from '@huggingface/jinja'

/** A node of a parsed template. */
type Node = { type: string } & Record<string, unknown>

/**
 * A chat template with the results that Python's jinja2 gives. `@huggingface/jinja` ignores the argument of `strip`, and does not
 * write null and booleans as Python does. These differences remain, none of them in what a training continues, because only new
 * messages are rendered there:
 *
 * - Arguments and schemas whose numbers `JSON.parse` changes (`1.0`, `1e-7`, integers above 2^53), or whose keys look like
 *   integers, which it moves to the front.
 * - `string` of an object or a list: JSON instead of Python's form.
 * - A text of white space equals `false`, which one of Cohere's templates asks of the system message.
 * - A byte order mark at the start of an answer, which `@huggingface/tokenizers` drops when it decodes tokens.
 */
export class PythonTemplate {
  readonly #template: Template

  constructor(source: string) {
    this.#template = new Template(source)
    asInPython(this.#template.parsed)
  }

  /** @throws Error for a template that does not end, or writes without end: it is a program of strangers */
  render(variables: Readonly<Record<string, unknown>>): string {
    const deadline = performance.now() + mostMilliseconds
    const limits = {
      'python step': () => {
        if (performance.now() <= deadline) return null
        throw new Error(`it runs for more than ${mostMilliseconds / 1000} seconds`)
      },
    }
    const text = this.#template.render({ ...variables, ...functions, ...limits })
    if (text.length > mostText) throw new Error(`it writes ${text.length} characters`)
    return text
  }
}

/** A long conversation takes some hundredths of a second. */
const mostMilliseconds = 2000
const mostText = 2 ** 24
/** As many numbers as Python's sandbox for templates makes. */
const mostNumbers = 100_000

function range(start: unknown, stop: unknown, step: unknown): number[] {
  const [from, to] = typeof stop === 'number' ? [Number(start), stop] : [0, Number(start)]
  const by = typeof step === 'number' ? step : 1
  const count = Math.max(0, Math.ceil((to - from) / by))
  if (!(count <= mostNumbers)) throw new Error(`it makes a range of ${count} numbers`)
  return Array.from({ length: count }, (_, at) => from + at * by)
}

/** Names with a space cannot be names in a template. */
const functions = {
  'python strip': (text: unknown, letters?: unknown) => rstrip(lstrip(text, letters), letters),
  'python lstrip': lstrip,
  'python rstrip': rstrip,
  'python range': range,
  'python word': (value: unknown) => (value === true ? 'True' : 'False'),
}

/** What `str.isspace` of Python is true for. */
const white =
  '\t\n\v\f\r\u001C-\u001F \u0085\u00A0\u1680\u2000-\u200A\u2028\u2029\u202F\u205F\u3000'
const isWhite = new RegExp(`^[${white}]$`)

function lstrip(text: unknown, letters: unknown): string {
  const all = lettersOf(text)
  const start = all.findIndex((letter) => !isStripped(letter, letters))
  return start === -1 ? '' : all.slice(start).join('')
}

function rstrip(text: unknown, letters: unknown): string {
  const all = lettersOf(text)
  return all.slice(0, all.findLastIndex((letter) => !isStripped(letter, letters)) + 1).join('')
}

function lettersOf(text: unknown): string[] {
  if (typeof text === 'string') return Array.from(text)
  throw new TypeError(`${String(text)} is not a text to strip`)
}

function isStripped(letter: string, letters: unknown): boolean {
  return typeof letters === 'string' ? letters.includes(letter) : isWhite.test(letter)
}

/** Changes a parsed template, from the leaves to the root. */
function asInPython(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(asInPython)
  if (value instanceof Map) {
    return new Map(Array.from(value, ([key, one]) => [asInPython(key), asInPython(one)]))
  }
  if (typeof value !== 'object' || value === null) return value
  const node = value as Node
  for (const [key, child] of Object.entries(node)) node[key] = asInPython(child)
  return replaced(node)
}

function replaced(node: Node): Node {
  if (node.type === 'For' || node.type === 'Macro') {
    // Each turn of a loop, and each call of a macro, is counted.
    return { ...node, body: [call('step', []), ...(node['body'] as Node[])] }
  }
  if (node.type === 'CallExpression') {
    const callee = node['callee'] as Node & { object?: Node; property?: Node }
    const { object, property } = callee
    if (callee.type === 'Identifier' && callee['value'] === 'range') {
      return call('range', node['args'] as Node[])
    }
    const method = String(property?.['value'])
    const isStrip = object !== undefined && /^[lr]?strip$/.test(method)
    return isStrip ? call(method, [object, ...(node['args'] as Node[])]) : node
  }
  if (node.type !== 'FilterExpression') return node
  const { operand, filter } = node as unknown as { operand: Node; filter: Node }
  if (filter['value'] === 'trim') return call('strip', [operand])
  if (filter['value'] !== 'string') return node
  const none = { type: 'StringLiteral', value: 'None' }
  return either(operand, 'none', none, either(operand, 'boolean', call('word', [operand]), node))
}

/** `one if value is test else other` */
function either(value: Node, test: string, one: Node, other: Node): Node {
  const condition = {
    type: 'TestExpression',
    operand: value,
    negate: false,
    test: { type: 'Identifier', value: test },
  }
  return { type: 'Ternary', condition, trueExpr: one, falseExpr: other }
}

function call(name: string, args: readonly unknown[]): Node {
  return { type: 'CallExpression', callee: { type: 'Identifier', value: `python ${name}` }, args }
}
