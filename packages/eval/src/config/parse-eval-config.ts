import { parse } from 'smol-toml'

import {
  type CheckedSections,
  configSections,
  type SectionName,
  sectionNames,
} from './config-sections.ts'
import { ruleProblems } from './rule-problems.ts'
import { sectionProblems, unknownSection } from './section-problems.ts'

/**
 * Parses the text of an eval config and checks everything that can be checked without looking at
 * files. Adds a line to `problems` for whatever is wrong.
 *
 * @throws TomlError for a text that is not TOML
 */
export function parseEvalConfig(text: string, problems: string[]): CheckedSections {
  const document: Record<string, unknown> = parse(text, { unsafeKeyBehaviour: 'throw' })
  problems.push(
    ...Object.keys(document)
      .filter((name) => !isKnown(name))
      .map(unknownSection),
  )

  function check<Name extends SectionName>(name: Name): CheckedSections[Name] {
    const checked = configSections[name].safeParse(document[name] ?? {}, { reportInput: true })
    if (checked.success) return checked.data as CheckedSections[Name]
    problems.push(...sectionProblems(name, checked.error.issues))
    return undefined
  }
  const sections: CheckedSections = {
    experiment: check('experiment'),
    evaluation: check('evaluation'),
    env: check('env'),
    secrets: check('secrets'),
    policy: document.policy === undefined ? undefined : check('policy'),
    advanced: check('advanced'),
  }
  problems.push(...ruleProblems(sections))
  return sections
}

function isKnown(name: string): boolean {
  return sectionNames.some((known) => known === name)
}
