/** Whether a failure is what user code threw, as rollout servers say that. */
export function isThrown(message: string): boolean {
  return message.startsWith('thrown by ')
}

/** `thrown by run() at main.ts:17`: the place of what user code threw; undefined where it has none. */
export function thrownAt(message: string): string | undefined {
  return /^thrown by [^:\n]+ at [^\n]+?:\d+(?=: )/.exec(message)?.[0]
}
