import { isJsonObject, parseJson } from '../../http/json.ts'

/** How the name ends under which an agent gets a call that its framework would run although it is malformed. */
const ending = '_with_malformed_arguments'

/** The arguments of a tool call; undefined when they are not a JSON object. */
export function argumentsObject(written: string): Record<string, unknown> | undefined {
  const value = parseJson(written)
  return isJsonObject(value) ? value : undefined
}

/**
 * The name of a tool call for frameworks that repair malformed arguments, or replace them by an empty object, and run
 * the tool: under a name that no tool has they report an error to the policy instead.
 */
export function nameForAgent(name: string, written: string): string {
  return argumentsObject(written) === undefined
    ? `${name.slice(0, 64 - ending.length)}${ending}`
    : name
}
