/** Built-ins that rollouts, graders and the reports about them depend on. */
const probes: readonly (readonly [name: string, works: () => boolean])[] = [
  ['JSON.stringify', () => JSON.stringify({ a: [1, 'x', null] }) === '{"a":[1,"x",null]}'],
  ['JSON.parse', () => (JSON.parse('{"a":[1]}') as { a: number[] }).a[0] === 1],
  ['Array.prototype.map', () => [1, 2].map((n) => n + 1)[1] === 3],
  ['Map.prototype.get', () => new Map([['a', 1]]).get('a') === 1],
  ['Object.entries', () => Object.entries({ a: 1 })[0]?.[1] === 1],
]

/**
 * Checks whether built-ins still work. User code of one rollout can break them for all others of its process
 * without an error, and a rollout that waits for a promise then never ends. A replacement that works is
 * accepted.
 */
export class BuiltIns {
  #isReactionDue = false

  /** The name of one that does not work. To be called repeatedly, because promises take a turn. */
  findBroken(): string | undefined {
    if (this.#isReactionDue) return 'Promise.prototype.then'
    // Counted, because iterators can be broken as well.
    for (let index = 0; index < probes.length; index += 1) {
      const [name, works] = probes[index] as (typeof probes)[number]
      if (!doesWork(works)) return name
    }
    this.#isReactionDue = true
    const react = (): void => {
      this.#isReactionDue = false
    }
    return doesWork(() => Boolean(Promise.resolve().then(react, react)))
      ? undefined
      : 'Promise.prototype.then'
  }
}

function doesWork(works: () => boolean): boolean {
  try {
    return works()
  } catch {
    return false
  }
}
