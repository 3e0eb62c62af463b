package clone

import "fmt"

// Engine is who makes the disks.
type Engine string

// The engines.
const (
	EngineVMDisk Engine = "vmdisk"
	EngineCDI    Engine = "cdi"
)

// Policy is what becomes of a disk that a driver may never be able to clone.
type Policy struct {
	Engine Engine
	// Refuses: it is refused when it is created. Otherwise it is copied, and a warning says so.
	Refuses bool
}

// NewPolicy reads the flags --engine and --cross-class-clone. With CDI's engine disks are always refused, since nobody would copy them.
func NewPolicy(engine, crossClass string) (Policy, error) {
	p := Policy{Engine: Engine(engine)}
	if p.Engine != EngineVMDisk && p.Engine != EngineCDI {
		return Policy{}, fmt.Errorf("--engine is %q: set it to vmdisk or cdi", engine)
	}
	if crossClass != "copy" && crossClass != "refuse" {
		return Policy{}, fmt.Errorf("--cross-class-clone is %q: set it to copy or refuse", crossClass)
	}
	p.Refuses = p.Engine == EngineCDI || crossClass == "refuse"
	return p, nil
}

// Admission is the answer to a disk that is created.
type Admission struct {
	Refused bool
	// Message is the refusal, or a warning; empty: there is nothing to say.
	Message string
}

// Admission is the answer to a disk that is created by this plan.
func (p Plan) Admission(policy Policy) Admission {
	switch {
	case p.Finding == nil:
		return Admission{}
	case policy.Refuses:
		return Admission{Refused: true, Message: p.Finding.Message(policy)}
	default:
		return Admission{Message: p.Finding.Warning(p)}
	}
}
